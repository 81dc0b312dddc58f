# One pool of A100s and T4s, and one policy with sharing of type Auto: four pods
# share each T4, under a name of its own, and the A100s are cut for who asks.
node t1..t2 4xT4 labels pool=research
node a1..a2 8xA100-80GB labels pool=research
# Somebody works on one of the A100s already.
pod vision/train 7g.80gb selector kubernetes.io/hostname=a1
run until quiet

policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    layout: {type: DemandDriven}
    sharing:
      type: Auto
      rules:
        - {resource: nvidia.com/gpu, replicas: 4}
    rollout: {maxUnavailable: 2, cooldown: 0s}
run until quiet max 2h
expect allocatable t1 nvidia.com/gpu.shared 16
expect allocatable t1 nvidia.com/gpu 0
expect allocatable t2 nvidia.com/gpu.shared 16
expect allocatable a1 7g.80gb 8
expect allocatable a2 7g.80gb 8
expect label a1 nvidia.com/device-plugin.config-
explain node t1

# Notebooks with a share and notebooks with a slice, each where it belongs.
workbench team-a/lab shares 1
workbench team-a/small 1g.10gb
workbench team-b/large 3g.40gb
run until quiet max 2h
expect workbench team-a/lab running
expect workbench team-a/small running
expect workbench team-b/large running
expect pod vision/train running on a1
expect allocatable t1 nvidia.com/gpu.shared 16
explain policy research
expect evictions 0
