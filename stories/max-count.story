# The policy lets at most two 3g.40gb exist. The third request is told which
# field would have to change.
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
          - {profile: 3g.40gb, maxCount: 2}
    rollout: {cooldown: 1m}

workbench team-a/l1 3g.40gb
workbench team-a/l2 3g.40gb
workbench team-a/l3 3g.40gb
run until quiet
expect unserved 1
explain request team-a/l3
expect said "maxCount"
