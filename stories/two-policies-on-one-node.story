# Both select the node. The one of higher priority has it, and the other says
# so in a condition.
node n1 1xA100-80GB labels pool=research tier=gold
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: gold}
  spec:
    nodeSelector: {matchLabels: {tier: gold}}
    priority: 10
    layout:
      type: DemandDriven
      demandDriven:
        slices:
          - {profile: 3g.40gb, minCount: 2}
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    layout:
      type: DemandDriven
      demandDriven:
        slices:
          - {profile: 1g.10gb, minCount: 7}

run until quiet
expect allocatable n1 3g.40gb 2
expect condition research Accepted False Overruled
explain policy research
