# Two new nodes with eight GPUs each, MIG off on all of them, and an agent on each, which cannot switch MIG on. MIG
# manager switches it on once, when no pod holds anything there. From then on the agent changes the node: beside a
# notebook that computes, single slices are cut, and the node belongs to the agent.
node n1 8xH100-80GB mig off agent labels pool=research
node n2 8xA100-80GB mig off agent labels pool=research
policy policies/research.yaml
# Somebody has a whole GPU of n2: there MIG stays off until it is gone.
pod team-b/whole gpus 1 opens
workbench team-a/lab 3g.40gb
run until quiet
expect workbench team-a/lab running
fleet
