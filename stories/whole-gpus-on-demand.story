# A pool that follows demand and lets requests decide which GPUs are whole. A
# notebook is on n1, so MIG cannot be switched there: whoever does that clears
# the node. Nobody is on n2.
node n1..n2 8xA100-80GB layout all-1g.10gb labels pool=research
pod team-a/notebook 1g.10gb selector kubernetes.io/hostname=n1
run until quiet
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    layout:
      type: DemandDriven
      demandDriven:
        wholeGpus: {maxCount: 4}

run until quiet
expect changes 0

# A pod asks for two GPUs that are peers. Two of n2 become whole, six stay cut.
pod team-b/train gpus 2
plan
run until quiet
expect pod team-b/train running on n2
expect gpu n2 0 off
expect gpu n2 1 off
expect allocatable n2 nvidia.com/gpu 2
expect allocatable n2 1g.10gb 42
expect allocatable n1 1g.10gb 56
explain policy research

# While it trains, the GPUs beside it are cut anew for a workbench, and nothing
# is switched: neither for the next who asks, nor back.
workbench team-a/lab 3g.40gb
run until quiet
expect pod team-a/lab-0 running on n2
pod team-b/eval gpus 1
run until quiet
explain request team-b/eval
expect said "MIG is switched off only on a node where no pod holds a GPU or a slice"
expect pod team-b/train running on n2

# A whole GPU that is given back serves the next without any change.
end team-b/train
run until quiet
expect pod team-b/eval running on n2
end team-b/eval
stop team-a/lab
run until quiet
expect gpu n2 0 off
expect gpu n2 1 off

# They stay whole until slices are asked for that only they can give.
pod team-a/wide 7g.80gb:8
run until quiet
expect allocatable n2 7g.80gb 8
expect allocatable n2 nvidia.com/gpu 0
expect pod team-a/wide running on n2
expect pod team-a/notebook running on n1
expect plan empty
expect evictions 0
