# One by one, two small slices and then a large one can end in pieces; seen
# together, all three requests are served by one GPU.
node n1 1xA100-80GB agent labels pool=research
policy policies/research.yaml
workbench team-a/s1 1g.10gb
workbench team-a/s2 1g.10gb
workbench team-a/m1 2g.20gb
workbench team-a/l1 3g.40gb
run until quiet
expect unserved 0
expect workbench team-a/l1 running
fleet
