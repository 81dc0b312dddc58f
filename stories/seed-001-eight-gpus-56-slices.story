# Seed 001: eight A100, all cut into 1g.5gb, are 56 slices. Then the server
# reboots: MIG mode stays on, the instances are gone. They are brought back.
node dgx 8xA100-40GB labels pool=research
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    layout:
      type: Static
      static: {gpus: [{slices: [{profile: 1g.5gb, count: 7}]}]}

run until quiet
expect allocatable dgx 1g.5gb 56
reboot dgx
advance 5m
run until quiet
expect allocatable dgx 1g.5gb 56
expect node dgx schedulable
fleet
