# A static layout with drain: Evict. The pod in its way is evicted, and nothing
# else.
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
    rollout: {drain: Evict}

run until quiet
expect evictions 1
expect pod team-a/train gone
expect allocatable n1 1g.10gb 14
