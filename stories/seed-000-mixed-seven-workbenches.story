# Seed 000 again, with strategy mixed: an A100-80GB, seven workbenches, each
# with a 1g.10gb of its own. The GPU begins as one 7g.80gb that nobody wants.
node gpu-a 1xA100-80GB labels pool=research
policy policies/research.yaml
workbench team-a/w1 1g.10gb
workbench team-a/w2 1g.10gb
workbench team-a/w3 1g.10gb
workbench team-a/w4 1g.10gb
workbench team-b/w5 1g.10gb
workbench team-b/w6 1g.10gb
workbench team-b/w7 1g.10gb
plan
run until quiet
fleet
expect allocatable gpu-a 1g.10gb 7
expect workbench team-b/w7 running on gpu-a
expect plan empty
