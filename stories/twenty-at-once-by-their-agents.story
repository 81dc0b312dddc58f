# Twenty nodes with eight A100-80GB each, and on one GPU of each node somebody computes. Twenty
# people ask at once, each for a slice that his node does not have yet. The policy lets four nodes
# be unavailable at a time: the agents change four at once, and all twenty are served in five
# rounds, half a minute each.
node n1..n20 8xA100-80GB layout all-3g.40gb agent labels pool=research
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    layout: {type: DemandDriven}
    rollout: {maxUnavailable: 4}
pod team-a/train-1 3g.40gb opens selector kubernetes.io/hostname=n1
pod team-a/train-2 3g.40gb opens selector kubernetes.io/hostname=n2
pod team-a/train-3 3g.40gb opens selector kubernetes.io/hostname=n3
pod team-a/train-4 3g.40gb opens selector kubernetes.io/hostname=n4
pod team-a/train-5 3g.40gb opens selector kubernetes.io/hostname=n5
pod team-a/train-6 3g.40gb opens selector kubernetes.io/hostname=n6
pod team-a/train-7 3g.40gb opens selector kubernetes.io/hostname=n7
pod team-a/train-8 3g.40gb opens selector kubernetes.io/hostname=n8
pod team-a/train-9 3g.40gb opens selector kubernetes.io/hostname=n9
pod team-a/train-10 3g.40gb opens selector kubernetes.io/hostname=n10
pod team-a/train-11 3g.40gb opens selector kubernetes.io/hostname=n11
pod team-a/train-12 3g.40gb opens selector kubernetes.io/hostname=n12
pod team-a/train-13 3g.40gb opens selector kubernetes.io/hostname=n13
pod team-a/train-14 3g.40gb opens selector kubernetes.io/hostname=n14
pod team-a/train-15 3g.40gb opens selector kubernetes.io/hostname=n15
pod team-a/train-16 3g.40gb opens selector kubernetes.io/hostname=n16
pod team-a/train-17 3g.40gb opens selector kubernetes.io/hostname=n17
pod team-a/train-18 3g.40gb opens selector kubernetes.io/hostname=n18
pod team-a/train-19 3g.40gb opens selector kubernetes.io/hostname=n19
pod team-a/train-20 3g.40gb opens selector kubernetes.io/hostname=n20
run until quiet
workbench team-b/lab-1 2g.20gb selector kubernetes.io/hostname=n1
workbench team-b/lab-2 2g.20gb selector kubernetes.io/hostname=n2
workbench team-b/lab-3 2g.20gb selector kubernetes.io/hostname=n3
workbench team-b/lab-4 2g.20gb selector kubernetes.io/hostname=n4
workbench team-b/lab-5 2g.20gb selector kubernetes.io/hostname=n5
workbench team-b/lab-6 2g.20gb selector kubernetes.io/hostname=n6
workbench team-b/lab-7 2g.20gb selector kubernetes.io/hostname=n7
workbench team-b/lab-8 2g.20gb selector kubernetes.io/hostname=n8
workbench team-b/lab-9 2g.20gb selector kubernetes.io/hostname=n9
workbench team-b/lab-10 2g.20gb selector kubernetes.io/hostname=n10
workbench team-b/lab-11 2g.20gb selector kubernetes.io/hostname=n11
workbench team-b/lab-12 2g.20gb selector kubernetes.io/hostname=n12
workbench team-b/lab-13 2g.20gb selector kubernetes.io/hostname=n13
workbench team-b/lab-14 2g.20gb selector kubernetes.io/hostname=n14
workbench team-b/lab-15 2g.20gb selector kubernetes.io/hostname=n15
workbench team-b/lab-16 2g.20gb selector kubernetes.io/hostname=n16
workbench team-b/lab-17 2g.20gb selector kubernetes.io/hostname=n17
workbench team-b/lab-18 2g.20gb selector kubernetes.io/hostname=n18
workbench team-b/lab-19 2g.20gb selector kubernetes.io/hostname=n19
workbench team-b/lab-20 2g.20gb selector kubernetes.io/hostname=n20
run until quiet max 1h
expect workbench team-b/lab-1 running on n1
expect workbench team-b/lab-2 running on n2
expect workbench team-b/lab-3 running on n3
expect workbench team-b/lab-4 running on n4
expect workbench team-b/lab-5 running on n5
expect workbench team-b/lab-6 running on n6
expect workbench team-b/lab-7 running on n7
expect workbench team-b/lab-8 running on n8
expect workbench team-b/lab-9 running on n9
expect workbench team-b/lab-10 running on n10
expect workbench team-b/lab-11 running on n11
expect workbench team-b/lab-12 running on n12
expect workbench team-b/lab-13 running on n13
expect workbench team-b/lab-14 running on n14
expect workbench team-b/lab-15 running on n15
expect workbench team-b/lab-16 running on n16
expect workbench team-b/lab-17 running on n17
expect workbench team-b/lab-18 running on n18
expect workbench team-b/lab-19 running on n19
expect workbench team-b/lab-20 running on n20
expect pod team-a/train-1 running on n1
expect pod team-a/train-2 running on n2
expect pod team-a/train-3 running on n3
expect pod team-a/train-4 running on n4
expect pod team-a/train-5 running on n5
expect pod team-a/train-6 running on n6
expect pod team-a/train-7 running on n7
expect pod team-a/train-8 running on n8
expect pod team-a/train-9 running on n9
expect pod team-a/train-10 running on n10
expect pod team-a/train-11 running on n11
expect pod team-a/train-12 running on n12
expect pod team-a/train-13 running on n13
expect pod team-a/train-14 running on n14
expect pod team-a/train-15 running on n15
expect pod team-a/train-16 running on n16
expect pod team-a/train-17 running on n17
expect pod team-a/train-18 running on n18
expect pod team-a/train-19 running on n19
expect pod team-a/train-20 running on n20
expect changes 20
