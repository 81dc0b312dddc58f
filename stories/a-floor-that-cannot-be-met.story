# The policy wants three 7g.80gb, and there are two GPUs. What can be had is
# had, and the policy says what it lacks.
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
          - {profile: 7g.80gb, minCount: 3}

run until quiet
plan
expect said "minCount wants 3, and 2 can be reached"
expect condition research Planned False BoundUnmet
expect condition research Degraded True
