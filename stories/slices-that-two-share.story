# Small slices that two pods share each, beside large ones that are for one pod.
# The policy says both, so each node gets its layout and its sharing under one
# cordon: two nodes, two changes. When the sharing ends, it is the same.
node n1..n2 8xA100-80GB labels pool=research
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    layout:
      type: Static
      static:
        gpus:
          - {indices: [0, 1], slices: [{profile: 3g.40gb, count: 2}]}
          - {slices: [{profile: 1g.10gb, count: 7}]}
    sharing:
      type: TimeSlicing
      rules:
        - {model: A100-80GB, resource: nvidia.com/mig-1g.10gb, replicas: 2}
    rollout: {maxUnavailable: 2, cooldown: 0s}
run until quiet
expect allocatable n1 nvidia.com/mig-1g.10gb.shared 84
expect allocatable n1 nvidia.com/mig-1g.10gb 0
expect allocatable n1 3g.40gb 4
expect allocatable n2 nvidia.com/mig-1g.10gb.shared 84
expect changes 2
explain node n1

# Two people share one small slice of n1, and a third has a large slice for itself.
apply:
  apiVersion: v1
  kind: Pod
  metadata: {name: lab1, namespace: team-a}
  spec:
    nodeSelector: {kubernetes.io/hostname: n1}
    containers:
      - name: work
        image: registry.example/lab:1
        resources: {limits: {nvidia.com/mig-1g.10gb.shared: 1}}
  ---
  apiVersion: v1
  kind: Pod
  metadata: {name: lab2, namespace: team-a}
  spec:
    nodeSelector: {kubernetes.io/hostname: n1}
    containers:
      - name: work
        image: registry.example/lab:1
        resources: {limits: {nvidia.com/mig-1g.10gb.shared: 1}}
pod team-b/train 3g.40gb selector kubernetes.io/hostname=n1
run until quiet
expect pod team-a/lab1 running on n1
expect pod team-a/lab2 running on n1
expect pod team-b/train running on n1

# Three instead of two: nobody is disturbed, so it happens under the pods.
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    layout:
      type: Static
      static:
        gpus:
          - {indices: [0, 1], slices: [{profile: 3g.40gb, count: 2}]}
          - {slices: [{profile: 1g.10gb, count: 7}]}
    sharing:
      type: TimeSlicing
      rules:
        - {model: A100-80GB, resource: nvidia.com/mig-1g.10gb, replicas: 3}
    rollout: {maxUnavailable: 2, cooldown: 0s}
run until quiet max 2h
expect allocatable n1 nvidia.com/mig-1g.10gb.shared 126
expect pod team-a/lab1 running on n1

# No small slices any more. n2 is idle, and is cut at once. n1 waits: as long as
# one of the two shares a slice of six GPUs, it may be on any of them.
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    layout:
      type: Static
      static:
        gpus:
          - {slices: [{profile: 3g.40gb, count: 2}]}
    sharing: {type: None}
    rollout: {maxUnavailable: 2, cooldown: 0s}
run until quiet max 2h
expect allocatable n2 3g.40gb 16
expect allocatable n2 nvidia.com/mig-1g.10gb.shared 0
expect allocatable n1 nvidia.com/mig-1g.10gb.shared 126
end team-a/lab1
run until quiet max 2h
expect allocatable n1 nvidia.com/mig-1g.10gb.shared 126
expect pod team-a/lab2 running on n1
end team-a/lab2
run until quiet max 2h
expect allocatable n1 3g.40gb 16
expect pod team-b/train running on n1
# Two for the first layout, two for the third pod of a slice, and one cordon each for the end.
expect changes 6
fleet
expect evictions 0
