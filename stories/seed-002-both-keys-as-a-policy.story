# Seed 002: its map has one key for T4s (four pods each) and one for A100-40GBs
# (eight). As one policy: each node offers what its key says, under the GPUs'
# own name, and feature discovery adds -SHARED to their product. The entry of
# the map with one replica is left out: the device plugin does not start with it.
node t1..t2 2xT4 labels pool=lab
node a1 8xA100-40GB mig off labels pool=lab
node h1 8xA100-80GB labels pool=elsewhere
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: lab}
  spec:
    nodeSelector: {matchLabels: {pool: lab}}
    layout: {type: None}
    sharing:
      type: TimeSlicing
      rename: false
      oneEach: false
      rules:
        - {model: A100-40GB, resource: nvidia.com/gpu, replicas: 8}
        - {model: T4, resource: nvidia.com/gpu, replicas: 4}
    rollout: {maxUnavailable: 3, cooldown: 0s}
run until quiet max 2h
expect allocatable t1 nvidia.com/gpu 8
expect allocatable t2 nvidia.com/gpu 8
expect allocatable a1 nvidia.com/gpu 64
expect allocatable t1 nvidia.com/gpu.shared 0
expect label t1 nvidia.com/gpu.product=Tesla-T4-SHARED
expect label a1 nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB-SHARED
expect label a1 nvidia.com/gpu.sharing-strategy=time-slicing
expect condition lab Ready True Converged
explain node a1
explain node t1

# The seed's deployment: seven pods that ask for one GPU each run on one T4 node.
pod lab/vectoradd-1 gpus 1 selector kubernetes.io/hostname=t1
pod lab/vectoradd-2 gpus 1 selector kubernetes.io/hostname=t1
pod lab/vectoradd-3 gpus 1 selector kubernetes.io/hostname=t1
pod lab/vectoradd-4 gpus 1 selector kubernetes.io/hostname=t1
pod lab/vectoradd-5 gpus 1 selector kubernetes.io/hostname=t1
pod lab/vectoradd-6 gpus 1 selector kubernetes.io/hostname=t1
pod lab/vectoradd-7 gpus 1 selector kubernetes.io/hostname=t1
run until quiet
expect pod lab/vectoradd-1 running on t1
expect pod lab/vectoradd-7 running on t1
explain policy lab
