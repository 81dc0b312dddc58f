# Seed 000 as it was shown: strategy single, the policy wants 1g.10gb on every
# GPU, the node then offers nvidia.com/gpu: 7, and one workbench takes all seven.
node ods-worker-1 1xA100-80GB strategy single labels pool=research cpu 24 memory 216
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    layout:
      type: Static
      static: {gpus: [{model: A100-80GB, slices: [{profile: 1g.10gb, count: 7}]}]}

run until quiet
expect allocatable ods-worker-1 nvidia.com/gpu 7
expect label ods-worker-1 nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB-MIG-1g.10gb
workbench team-a/tensor gpus 7
run until quiet
expect workbench team-a/tensor running on ods-worker-1
fleet
