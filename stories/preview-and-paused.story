# Preview plans and changes nothing; Paused starts nothing new; Enforce does it.
node n1 1xA100-80GB labels pool=research
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    mode: Preview
    layout:
      type: DemandDriven
      demandDriven:

workbench team-a/lab 1g.10gb
run until quiet
plan
expect condition research Ready False Preview
expect changes 0
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    mode: Paused
    layout:
      type: DemandDriven
      demandDriven:

run until quiet
expect changes 0
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    mode: Enforce
    layout:
      type: DemandDriven
      demandDriven:

run until quiet
expect changes 1
expect workbench team-a/lab running
