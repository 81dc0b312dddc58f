# A node with eight A100-80GB. On each of them a notebook computes on a 3g.40gb, and
# on seven of them somebody has the 2g.20gb beside it. A request for another 3g.40gb
# comes: the rest of the eighth GPU is cut for it, once, while its notebook computes.
# Nobody else notices: the other slices of the node stay as they are.
node n1 8xA100-80GB layout all-balanced agent labels pool=research
policy policies/research.yaml
pod team-a/train-1 3g.40gb opens
pod team-a/train-2 3g.40gb opens
pod team-a/train-3 3g.40gb opens
pod team-a/train-4 3g.40gb opens
pod team-a/train-5 3g.40gb opens
pod team-a/train-6 3g.40gb opens
pod team-a/train-7 3g.40gb opens
pod team-a/train-8 3g.40gb opens
pod team-b/small-1 2g.20gb
pod team-b/small-2 2g.20gb
pod team-b/small-3 2g.20gb
pod team-b/small-4 2g.20gb
pod team-b/small-5 2g.20gb
pod team-b/small-6 2g.20gb
pod team-b/small-7 2g.20gb
run until quiet
fleet
workbench team-c/lab 3g.40gb
run until quiet
expect workbench team-c/lab running
expect pod team-a/train-1 running
expect pod team-a/train-2 running
expect pod team-a/train-3 running
expect pod team-a/train-4 running
expect pod team-a/train-5 running
expect pod team-a/train-6 running
expect pod team-a/train-7 running
expect pod team-a/train-8 running
fleet
