# With unrequested: Whole, a GPU that nobody asks for any more becomes one
# full-size slice again, once the node has rested.
node n1 1xA100-80GB layout all-1g.10gb labels pool=research
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    layout:
      type: DemandDriven
      demandDriven:
        unrequested: Whole
    rollout: {cooldown: 1m}

run until quiet
expect gpu n1 0 7g.80gb
workbench team-a/lab 1g.10gb
run until quiet
expect workbench team-a/lab running
stop team-a/lab
run until quiet
expect gpu n1 0 7g.80gb
