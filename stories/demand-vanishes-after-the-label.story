# The workbench is stopped when MIG manager is at work already. The change is
# finished and proved; the new layout stays.
node n1 1xA100-80GB labels pool=research
policy policies/research.yaml
workbench team-a/lab 1g.10gb
advance 2m10s
stop team-a/lab
run until quiet
expect node n1 schedulable
expect gpu n1 0 1g.10gb:7
expect plan empty
