# An administrator works on the node. We start nothing there, and uncordon
# nothing; afterwards it goes on.
node n1 1xA100-80GB labels pool=research
policy policies/research.yaml
cordon n1 by anna
workbench team-a/lab 1g.10gb
run until quiet
explain request team-a/lab
expect node n1 cordoned
expect changes 0
uncordon n1
run until quiet
expect workbench team-a/lab running
