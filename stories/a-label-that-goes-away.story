# A policy selects nodes by a label that GPU feature discovery takes away while
# a node changes. It keeps the node until it has arrived, and its condition warns: the
# policy for the rest gets none. The documented first policy needs no warning.
node n1..n2 8xA100-80GB labels pool=research
policy ../examples/first/policy.yaml
expect condition fleet Accepted True Valid
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: fleet}
  spec:
    priority: 10
    nodeSelector: {matchLabels: {nvidia.com/mig.capable: "true"}}
    layout: {type: DemandDriven}

policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: rest}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    layout: {type: DemandDriven}

expect condition fleet Accepted True Valid
workbench team-a/lab 3g.40gb
advance 2m30s
expect label n1 nvidia.com/mig.capable-
expect condition fleet Accepted True Valid
expect condition rest Accepted False Overruled
run until quiet
expect label n1 nvidia.com/mig.capable=true
expect workbench team-a/lab running on n1
expect condition fleet Ready True Converged
