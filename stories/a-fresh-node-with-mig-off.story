# A node that was never cut: MIG is off on both GPUs. It is switched on, once,
# on all of them, when no pod holds anything.
node n1 2xA100-80GB mig off labels pool=research
policy policies/research.yaml
workbench team-a/lab 3g.40gb
plan
run until quiet
expect workbench team-a/lab running
expect gpu n1 1 7g.80gb
fleet
