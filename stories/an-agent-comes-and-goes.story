# Two nodes with eight GPUs each, of which one is of another team. The agent of the first has recut a GPU beside
# notebooks, which no entry of a map describes. Then it only reports: the node goes back
# to MIG manager with an entry that says what there is, and nobody loses a slice. It may
# change slices again, does so, and is uninstalled for good: ten minutes later MIG manager
# has the node again.
node n1 8xA100-80GB layout all-balanced agent labels pool=research
node n2 8xA100-80GB layout all-3g.40gb labels pool=other taint example.com/team=other:NoSchedule
policy policies/research.yaml
pod team-a/train-1 3g.40gb opens
pod team-a/train-2 3g.40gb opens
pod team-a/train-3 3g.40gb opens
pod team-a/train-4 3g.40gb opens
pod team-a/train-5 3g.40gb opens
pod team-a/train-6 3g.40gb opens
pod team-a/train-7 3g.40gb opens
pod team-a/train-8 3g.40gb opens
workbench team-c/lab 3g.40gb
run until quiet
expect workbench team-c/lab running
expect label n1 nvidia.com/gpu.deploy.mig-manager=false
agent n1 reports
advance 10m
expect label n1 nvidia.com/gpu.deploy.mig-manager=true
expect label n1 nvidia.com/mig.config.state=success
expect node n1 schedulable
expect workbench team-c/lab running
expect pod team-a/train-1 running
expect pod team-a/train-8 running
agent n1 changes
workbench team-c/next 3g.40gb
run until quiet
expect workbench team-c/next running
expect label n1 nvidia.com/gpu.deploy.mig-manager=false
agent n1 gone
advance 9m
expect label n1 nvidia.com/gpu.deploy.mig-manager=false
advance 10m
expect label n1 nvidia.com/gpu.deploy.mig-manager=true
expect label n1 nvidia.com/mig.config.state=success
expect workbench team-c/lab running
expect workbench team-c/next running
expect pod team-a/train-1 running
expect pod team-a/train-8 running
fleet
