# Somebody trains on a 3g.40gb. What others ask for is cut beside it (an agent
# can), and never out of it.
node n1 1xA100-80GB layout all-3g.40gb agent labels pool=research
policy policies/research.yaml
pod team-a/train 3g.40gb opens
run until quiet
workbench team-b/l1 1g.10gb
workbench team-b/l2 1g.10gb
workbench team-b/l3 2g.20gb
run until quiet
expect pod team-a/train running
expect workbench team-b/l3 running
workbench team-b/l4 4g.40gb
run until quiet
explain request team-b/l4
expect workbench team-b/l4 pending
fleet
