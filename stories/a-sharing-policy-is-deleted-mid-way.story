# The policy goes while its nodes change. t1 is told its key already: it is
# proved, opened, and keeps it. t2 is told nothing yet, and stays as it is.
node t1..t2 4xT4 labels pool=notebooks
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: notebooks}
  spec:
    nodeSelector: {matchLabels: {pool: notebooks}}
    layout: {type: None}
    sharing: {type: TimeSlicing, rules: [{resource: nvidia.com/gpu, replicas: 4}]}
    rollout: {cooldown: 0s}
advance 3m5s
expect node t1 cordoned
expect node t2 schedulable
delete policy notebooks
run until quiet max 2h
expect node t1 schedulable
expect allocatable t1 nvidia.com/gpu.shared 16
expect node t2 schedulable
expect allocatable t2 nvidia.com/gpu 4
expect label t2 nvidia.com/device-plugin.config-

# Who has a share keeps it, and nobody takes the key away.
pod vision/train gpus 1
workbench team-a/lab shares 1
run until quiet
expect workbench team-a/lab running on t1
expect pod vision/train running on t2
