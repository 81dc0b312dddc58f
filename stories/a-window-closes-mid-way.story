# Changes start on weekdays from 22:00 to 22:03. Three nodes need to change,
# one after the other: what has begun is finished, and the rest waits for the
# next evening.
clock 2026-03-02T21:50:00Z
node n1..n3 1xA100-80GB labels pool=research
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
          - {profile: 1g.10gb, minCount: 21}
    rollout:
      windows: [{schedule: "0 22 * * 1-5", duration: 3m, timeZone: UTC}]

plan
advance 20m
expect changes 2
expect told research "Waiting"
plan
advance 24h
expect changes 3
expect allocatable n3 1g.10gb 7
