# Seed 002: the pod selects gpu.product=...-MIG-1g.5gb, a label that follows
# the layout (strategy single). It is judged against the labels as they will be.
node n1 1xA100-40GB strategy single labels pool=research
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    layout:
      type: Static
      static: {gpus: [{slices: [{profile: 1g.5gb, count: 7}]}]}

pod lab/vectoradd gpus 1 selector nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB-MIG-1g.5gb
expect pod lab/vectoradd pending
run until quiet
expect pod lab/vectoradd running on n1
