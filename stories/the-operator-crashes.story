# The operator's process dies in the middle of a change: before the label is
# written, while MIG manager works, and while the slices are proved. Each time
# the next one goes on from what is stored.
node n1 1xA100-80GB labels pool=research
policy policies/research.yaml
workbench team-a/lab 1g.10gb
advance 2m2s
crash
advance 10s
crash
advance 20s
crash
run until quiet
expect workbench team-a/lab running
expect node n1 schedulable
expect changes 1
