# Somebody takes the key of a node away that is shared by policy. Its sharing is
# frozen: nothing is put back, nobody who has a share is disturbed, the policy
# says so, and its other node follows the next change of the policy.
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
run until quiet max 2h
expect allocatable t1 nvidia.com/gpu.shared 16
workbench team-a/lab shares 1 selector kubernetes.io/hostname=t1
run until quiet
label t1 nvidia.com/device-plugin.config-
run until quiet
expect condition notebooks Ready False ForeignSharing
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: notebooks}
  spec:
    nodeSelector: {matchLabels: {pool: notebooks}}
    layout: {type: None}
    sharing: {type: TimeSlicing, rules: [{resource: nvidia.com/gpu, replicas: 6}]}
    rollout: {cooldown: 0s}
run until quiet max 2h
expect allocatable t2 nvidia.com/gpu.shared 24
expect label t1 nvidia.com/device-plugin.config-
expect node t1 schedulable
expect workbench team-a/lab running on t1
explain node t1
