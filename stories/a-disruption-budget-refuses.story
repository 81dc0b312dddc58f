# drain: Evict, and a PodDisruptionBudget that spares nobody. The eviction is
# refused, and honoured: the attempt is taken back, and says why.
node n1 1xA100-80GB layout all-7g.80gb labels pool=research
pod team-a/serve 7g.80gb
budget team-a/serve 1 app=serve
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

advance 10m
expect pod team-a/serve running
expect evictions 0
run until quiet max 3h
plan
expect node n1 schedulable
# The budget is lifted: the next attempt succeeds.
budget team-a/serve 0 app=serve
run until quiet max 26h
expect evictions 1
expect allocatable n1 1g.10gb 7
