# Seed 003: somebody switches MIG off on a node that we had taken over. That is
# a layout of theirs: it is left alone, and both ways out are named.
node station 1xA100-40GB labels pool=research
policy policies/research.yaml
workbench lab/a 1g.5gb
run until quiet
stop lab/a
advance 15m
foreign station all-disabled
run until quiet
expect gpu station 0 off
expect condition research Ready False ForeignLayout
explain node station
