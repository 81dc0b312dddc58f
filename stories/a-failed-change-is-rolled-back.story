# The driver refuses to create instances. The change fails under every name,
# and with a new MIG manager; the last verified layout is brought back.
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
    rollout: {cooldown: 1m}

workbench team-a/first 1g.10gb
run until quiet
stop team-a/first
advance 5m
fault n1 create-fails 4
workbench team-b/second 2g.20gb
advance 30m
expect node n1 settled
expect allocatable n1 1g.10gb 7
explain request team-b/second
# An hour later it is tried again, and the driver has recovered.
advance 1h
expect workbench team-b/second running
