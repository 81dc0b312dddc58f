# DCGM and its exporter keep every slice of a node open, which no list of processes
# shows. Seven of eight GPUs are computed on by two teams. The agent cuts the last one for
# a third: both monitors are paused with the device plugin, and let go. They come back,
# and hold the new slices as well.
node n1 8xA100-80GB layout all-3g.40gb agent labels pool=research
node n2 8xA100-80GB layout all-3g.40gb labels pool=other taint example.com/team=other:NoSchedule
policy policies/research.yaml
fault n1 dcgm-holds-slices
pod team-b/train-1 3g.40gb opens
pod team-a/train-2 3g.40gb opens
pod team-b/train-3 3g.40gb opens
pod team-a/train-4 3g.40gb opens
pod team-b/train-5 3g.40gb opens
pod team-a/train-6 3g.40gb opens
pod team-b/train-7 3g.40gb opens
pod team-a/train-8 3g.40gb opens
pod team-b/train-9 3g.40gb opens
pod team-a/train-10 3g.40gb opens
pod team-b/train-11 3g.40gb opens
pod team-a/train-12 3g.40gb opens
pod team-b/train-13 3g.40gb opens
pod team-a/train-14 3g.40gb opens
pod team-b/train-15 3g.40gb opens
run until quiet
workbench team-c/lab 1g.10gb
run until quiet
expect workbench team-c/lab running
expect pod team-a/train-2 running
expect pod team-b/train-15 running
expect node n1 schedulable
workbench team-c/next 2g.20gb
run until quiet
expect workbench team-c/next running
fleet
