# Two GPUs of each node stay whole, for training that needs both of them, and six
# are cut for notebooks. Whoever switches MIG off clears the node, so n2 waits
# for its notebook; n1 is idle and changes at once.
node n1..n2 8xA100-80GB layout all-1g.10gb labels pool=research
pod team-a/notebook 1g.10gb selector kubernetes.io/hostname=n2
run until quiet
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    layout:
      type: Static
      static:
        gpus:
          - {indices: [0, 1], mig: Disabled}
          - {slices: [{profile: 1g.10gb, count: 7}]}
    rollout: {maxUnavailable: 2}

plan
run until quiet
expect gpu n1 0 off
expect gpu n1 1 off
expect allocatable n1 nvidia.com/gpu 2
expect allocatable n1 1g.10gb 42
expect allocatable n2 1g.10gb 56
explain node n2
explain policy research

# A pod trains on both whole GPUs. The six others are cut anew beside it: nobody
# holds a slice of theirs, and MIG stays as it is on every GPU.
pod team-b/train gpus 2
run until quiet
expect pod team-b/train running on n1
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    layout:
      type: Static
      static:
        gpus:
          - {indices: [0, 1], mig: Disabled}
          - {slices: [{profile: 3g.40gb, count: 2}]}
    rollout: {maxUnavailable: 2}

run until quiet
expect allocatable n1 3g.40gb 12
expect pod team-b/train running on n1

# The notebook ends, and n2 becomes like n1.
end team-a/notebook
run until quiet
expect gpu n2 1 off
expect gpu n2 7 3g.40gb 3g.40gb
fleet

# And back: n2 is idle and is cut at once. n1 is not touched while the pod
# trains, although no pod is on the GPUs that are cut already.
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    layout:
      type: Static
      static:
        gpus:
          - {slices: [{profile: 3g.40gb, count: 2}]}
    rollout: {maxUnavailable: 2}

run until quiet
expect allocatable n2 3g.40gb 16
expect allocatable n2 nvidia.com/gpu 0
expect allocatable n1 nvidia.com/gpu 2
explain node n1
end team-b/train
run until quiet
expect allocatable n1 3g.40gb 16
expect plan empty
expect evictions 0
