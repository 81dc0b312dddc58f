# While the agent changes a slice, the device plugin is away. In this gap the container of a pod
# starts again, the kubelet starts again, and a pod that had its slices and was slow to start is
# refused by that kubelet, which is what remains to be known. Whoever ran has the slices of
# before, and the change is done.
node n1 8xA100-80GB layout all-3g.40gb agent labels pool=research
node n2 8xA100-80GB layout all-3g.40gb labels pool=other taint example.com/team=other:NoSchedule
policy policies/research.yaml
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
run until quiet
workbench team-c/lab 1g.10gb
advance 6s
fault n1 books-lag 12s
pod team-d/slow 3g.40gb
advance 12s
close team-b/train-1
advance 1s
fault n1 kubelet-restarts
advance 2s
open team-b/train-1
run until quiet
expect workbench team-c/lab running
expect pod team-b/train-1 running
expect pod team-a/train-2 running
expect pod team-d/slow failed
expect node n1 schedulable
fleet
