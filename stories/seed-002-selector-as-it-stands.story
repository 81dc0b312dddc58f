# Seed 002 as it stands, under strategy single: its deployment selects
# gpu.product=A100-SXM4-40GB-MIG-1g.5gb, as GPU feature discovery labelled nodes
# in 2022. Today the label begins with NVIDIA-. The node is cut as the seed cuts
# it and has seven slices free, and nobody who selects so ever gets one: the
# answer names the label that the node has.
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

# Before the node is cut, it is judged as it will be.
pod lab/vectoradd gpus 1 selector nvidia.com/gpu.product=A100-SXM4-40GB-MIG-1g.5gb
expect told lab/vectoradd "no node fits its selector"
expect told lab/vectoradd "has label nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB-MIG-1g.5gb (wanted: A100-SXM4-40GB-MIG-1g.5gb)"
run until quiet max 2h
expect allocatable n1 nvidia.com/gpu 7
expect pod lab/vectoradd pending
explain request lab/vectoradd

# With the label as it is today, seven run, as the seed says, and an eighth waits for one of them.
pod lab/vectoradd-1 gpus 1 selector nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB-MIG-1g.5gb
pod lab/vectoradd-2 gpus 6 selector nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB-MIG-1g.5gb
pod lab/vectoradd-8 gpus 1 selector nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB-MIG-1g.5gb
run until quiet max 2h
expect pod lab/vectoradd-1 running on n1
expect pod lab/vectoradd-2 running on n1
expect pod lab/vectoradd-8 pending
expect told lab/vectoradd-8 "every slice that could serve it is in use"
