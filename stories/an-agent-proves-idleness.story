# The same with an agent: it says which GPU is idle, and that one is cut.
node n1 2xA100-80GB layout all-3g.40gb agent labels pool=research
policy policies/research.yaml
pod team-a/train 3g.40gb
run until quiet
workbench team-b/lab 7g.80gb
run until quiet
expect workbench team-b/lab running
expect pod team-a/train running
fleet
