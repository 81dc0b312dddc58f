# The workbench is stopped while its node is still being prepared. Nothing has
# been changed, so nothing is.
node n1 1xA100-80GB labels pool=research
policy policies/research.yaml
workbench team-a/lab 1g.10gb
advance 2m3s
expect node n1 cordoned
stop team-a/lab
run until quiet
expect node n1 schedulable
expect gpu n1 0 7g.80gb
expect plan empty
