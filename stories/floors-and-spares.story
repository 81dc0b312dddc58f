# Two 3g.40gb exist at all times, and one 1g.10gb is free at all times: also
# after somebody took the one that was free.
node n1 2xA100-80GB labels pool=research
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
          - {profile: 3g.40gb, minCount: 2}
          - {profile: 1g.10gb, spareCount: 1}
    rollout: {cooldown: 1m}

run until quiet
expect allocatable n1 3g.40gb 2
fleet
workbench team-a/lab 1g.10gb
run until quiet
explain policy research
expect workbench team-a/lab running
expect condition research Planned True
