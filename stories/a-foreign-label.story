# Somebody writes another layout onto a node that is ours. The node is frozen,
# nothing is reverted, and the policy says so.
node n1 1xA100-80GB labels pool=research
policy policies/research.yaml
workbench team-a/lab 1g.10gb
run until quiet
stop team-a/lab
advance 15m
foreign n1 all-3g.40gb
run until quiet
expect label n1 nvidia.com/mig.config=all-3g.40gb
expect condition research Ready False ForeignLayout
workbench team-a/other 2g.20gb
run until quiet
explain request team-a/other
expect workbench team-a/other pending
expect changes 1
