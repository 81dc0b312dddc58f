# A node that changed a moment ago rests, here for half an hour.
node n1 1xA100-80GB labels pool=research
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    layout:
      type: DemandDriven
      demandDriven:
    rollout: {cooldown: 30m}

workbench team-a/lab 1g.10gb
run until quiet
stop team-a/lab
workbench team-b/lab 7g.80gb
advance 5m
explain request team-b/lab
expect said "its cooldown lasts until"
expect workbench team-b/lab pending
advance 35m
expect workbench team-b/lab running
