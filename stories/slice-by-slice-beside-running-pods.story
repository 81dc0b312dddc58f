# With an agent single slices come and go beside pods that run: nobody is evicted,
# and nobody who has a slice notices. The node takes no new pods for half a minute,
# in which its device plugin is away.
node n1 1xH100-80GB agent labels pool=research
policy policies/research.yaml
pod team-a/train 3g.40gb opens
run until quiet
workbench team-b/l1 1g.10gb
run until quiet
workbench team-b/l2 2g.20gb
run until quiet
expect pod team-a/train running
expect workbench team-b/l2 running
fleet
stop team-b/l1
run until quiet
workbench team-b/l3 1g.20gb
run until quiet
expect workbench team-b/l3 running
fleet
