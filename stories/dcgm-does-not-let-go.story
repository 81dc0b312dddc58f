# The monitors keep every slice open, and DCGM's pod does not stop when the hold pauses it. To
# destroy a slice is refused, and no list of processes says by whom. The agent asks the
# driver some times, gives the change up with what the driver said, and has destroyed nothing.
# The node is open again, and nobody lost a slice. Once the pod stops, the request is served.
node n1 8xA100-80GB layout all-3g.40gb agent labels pool=research
node n2 8xA100-80GB layout all-3g.40gb labels pool=other taint example.com/team=other:NoSchedule
policy policies/research.yaml
fault n1 dcgm-holds-slices
fault n1 does-not-stop dcgm
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
run until quiet
workbench team-c/lab 1g.10gb
advance 5m
expect workbench team-c/lab pending
expect node n1 schedulable
explain node n1
fault n1 clear
fault n1 dcgm-holds-slices
run until quiet
expect workbench team-c/lab running
expect pod team-b/train-1 running
expect pod team-a/train-14 running
fleet
