# Ten T4s on three nodes, and one policy: four pods share each GPU, under a
# name of its own, so that nobody shares one without having asked for it. A
# node beside them has A100s, which another policy cuts.
node t1..t2 4xT4 labels pool=notebooks
node t3 2xT4 labels pool=notebooks
node n1 8xA100-80GB labels pool=research layout all-3g.40gb
policy policies/research.yaml

# Somebody has a whole T4 of t1 before there is a policy.
pod vision/train gpus 1 selector kubernetes.io/hostname=t1
run until quiet
expect pod vision/train running on t1

policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: notebooks}
  spec:
    nodeSelector: {matchLabels: {pool: notebooks}}
    layout: {type: None}
    sharing:
      type: TimeSlicing
      rename: true
      oneEach: true
      rules:
        - {model: T4, resource: nvidia.com/gpu, replicas: 4}
    rollout: {cooldown: 0s}
run until quiet max 2h

# Two nodes are shared. The third waits: vision/train would get neighbours.
expect allocatable t2 nvidia.com/gpu.shared 16
expect allocatable t2 nvidia.com/gpu 0
expect allocatable t3 nvidia.com/gpu.shared 8
expect allocatable t1 nvidia.com/gpu 4
expect node t1 schedulable
explain node t1
explain node t3

# Eight notebooks fill the two T4s of t3: four on each. A ninth finds no room.
workbench team-a/lab1 shares 1 selector kubernetes.io/hostname=t3
workbench team-a/lab2 shares 1 selector kubernetes.io/hostname=t3
workbench team-a/lab3 shares 1 selector kubernetes.io/hostname=t3
workbench team-a/lab4 shares 1 selector kubernetes.io/hostname=t3
workbench team-b/lab5 shares 1 selector kubernetes.io/hostname=t3
workbench team-b/lab6 shares 1 selector kubernetes.io/hostname=t3
workbench team-b/lab7 shares 1 selector kubernetes.io/hostname=t3
workbench team-b/lab8 shares 1 selector kubernetes.io/hostname=t3
run until quiet
expect workbench team-a/lab1 running on t3
expect workbench team-b/lab8 running on t3
workbench team-b/lab9 shares 1 selector kubernetes.io/hostname=t3
run until quiet
expect workbench team-b/lab9 pending
explain request team-b/lab9
explain node t3
delete workbench team-b/lab9

# The whole T4 is given back, and t1 follows.
end vision/train
run until quiet max 2h
expect allocatable t1 nvidia.com/gpu.shared 16

# Six instead of four: nobody is disturbed, so it happens under the notebooks.
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: notebooks}
  spec:
    nodeSelector: {matchLabels: {pool: notebooks}}
    layout: {type: None}
    sharing:
      type: TimeSlicing
      rules:
        - {model: T4, resource: nvidia.com/gpu, replicas: 6}
    rollout: {cooldown: 0s}
run until quiet max 2h
expect allocatable t3 nvidia.com/gpu.shared 12
expect workbench team-a/lab1 running on t3

# Three a GPU are six seats on t3, and eight are taken: it waits. The others go down.
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: notebooks}
  spec:
    nodeSelector: {matchLabels: {pool: notebooks}}
    layout: {type: None}
    sharing:
      type: TimeSlicing
      rules:
        - {model: T4, resource: nvidia.com/gpu, replicas: 3}
    rollout: {cooldown: 0s}
run until quiet max 2h
expect allocatable t1 nvidia.com/gpu.shared 12
expect allocatable t3 nvidia.com/gpu.shared 12
stop team-a/lab1
stop team-a/lab2
run until quiet max 2h
expect allocatable t3 nvidia.com/gpu.shared 6
expect workbench team-a/lab3 running on t3

# No sharing any more: where nobody holds a share, at once; on t3 when the last has gone.
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: notebooks}
  spec:
    nodeSelector: {matchLabels: {pool: notebooks}}
    layout: {type: None}
    sharing: {type: None}
    rollout: {cooldown: 0s}
run until quiet max 2h
expect allocatable t1 nvidia.com/gpu 4
expect allocatable t3 nvidia.com/gpu.shared 6
expect workbench team-b/lab8 running on t3
stop team-a/lab3
stop team-a/lab4
stop team-b/lab5
stop team-b/lab6
stop team-b/lab7
run until quiet max 2h
expect allocatable t3 nvidia.com/gpu.shared 6
stop team-b/lab8
run until quiet max 2h
expect allocatable t3 nvidia.com/gpu 2
expect allocatable t3 nvidia.com/gpu.shared 0
explain node t3
fleet
