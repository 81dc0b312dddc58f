# The same with drain: Never. The change waits until the pod ends by itself.
node n1 2xA100-80GB layout all-7g.80gb labels pool=research
pod team-a/train 7g.80gb
run until quiet
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    layout:
      type: Static
      static: {gpus: [{slices: [{profile: 1g.10gb, count: 7}]}]}
    rollout: {drain: Never}

run until quiet
plan
expect evictions 0
expect pod team-a/train running
end team-a/train
run until quiet
expect allocatable n1 1g.10gb 14
