# On an A100-40GB `1g.10gb` is the slice with double memory, on an A100-80GB
# the smallest. Both serve a request for it; the report says which one did.
node a40 1xA100-40GB labels pool=research
node a80 1xA100-80GB labels pool=research
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    layout:
      type: DemandDriven
      demandDriven:
    rollout: {maxUnavailable: 2}

workbench team-a/l1 1g.10gb
workbench team-a/l2 1g.10gb
workbench team-a/l3 1g.10gb
workbench team-a/l4 1g.10gb
workbench team-a/l5 1g.10gb
workbench team-a/l6 1g.10gb
workbench team-a/l7 1g.10gb
workbench team-a/l8 1g.10gb
plan
run until quiet
expect unserved 0
expect workbench team-a/l8 running
fleet
