# Two nodes with eight A100-80GB each, recut by their agents beside notebooks. The first
# reboots under its pods: its slices are gone, and MIG manager, which would cut them
# again, is off. The node is closed as soon as it is seen to have booted; its agent makes
# the slices where they were, and it is opened. The second node notices nothing.
node n1 8xA100-80GB layout all-balanced agent labels pool=research
node n2 8xA100-80GB layout all-balanced agent labels pool=research
policy policies/research.yaml
workbench team-a/train-1 3g.40gb:8
workbench team-a/train-2 3g.40gb:8
workbench team-c/lab 3g.40gb
run until quiet
expect workbench team-c/lab running
fleet
reboot n1
run until quiet max 2h
expect node n1 schedulable
expect node n2 schedulable
expect workbench team-a/train-1 running
expect workbench team-a/train-2 running
expect workbench team-c/lab running
fleet
