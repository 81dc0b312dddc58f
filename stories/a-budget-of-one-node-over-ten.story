# Ten nodes have to change, and one may be unavailable at a time. The ten are
# changed one after the other.
node n1..n10 1xA100-80GB labels pool=research
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
          - {profile: 1g.10gb, minCount: 70}
    rollout: {maxUnavailable: 1}

advance 3m
expect node n1 cordoned
expect node n2 schedulable
plan
run until quiet max 2h
expect changes 10
expect allocatable n10 1g.10gb 7
expect condition research Ready True
