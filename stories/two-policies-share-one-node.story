# Two policies with sharing select t1. The one of higher priority has it, and
# the other says so in a condition and shares what it has alone, t2. When the
# first goes, t1 follows the second, as soon as nobody is in the way.
node t1 4xT4 labels pool=notebooks tier=gold
node t2 4xT4 labels pool=notebooks
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: gold}
  spec:
    nodeSelector: {matchLabels: {tier: gold}}
    priority: 10
    layout: {type: None}
    sharing: {type: TimeSlicing, rules: [{resource: nvidia.com/gpu, replicas: 2}]}
    rollout: {cooldown: 0s}
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: notebooks}
  spec:
    nodeSelector: {matchLabels: {pool: notebooks}}
    layout: {type: None}
    sharing: {type: TimeSlicing, rules: [{resource: nvidia.com/gpu, replicas: 4}]}
    rollout: {cooldown: 0s}
run until quiet max 2h
expect allocatable t1 nvidia.com/gpu.shared 8
expect allocatable t2 nvidia.com/gpu.shared 16
explain policy notebooks
explain node t1

# Somebody has a share of t1. More sharers disturb nobody, so the node changes under the pod.
workbench team-a/lab shares 1 selector kubernetes.io/hostname=t1
run until quiet
delete policy gold
run until quiet max 2h
expect allocatable t1 nvidia.com/gpu.shared 16
expect workbench team-a/lab running on t1
expect evictions 0
