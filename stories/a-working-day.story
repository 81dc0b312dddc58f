# One working day of a small fleet: two A100-80GB, two A30 and an H100.
# The administrators committed one policy to Git: cut what people ask for, keep
# one 1g.10gb free for whoever comes next, one node at a time.
clock 2026-03-02T07:55:00Z
node ada 2xA100-80GB labels pool=research
node bea 2xA30 labels pool=research
node cyd 1xH100-80GB agent labels pool=research
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    layout:
      type: DemandDriven
      demandDriven:
        slices: [{profile: 1g.10gb, spareCount: 1}]
    rollout: {maxUnavailable: 1, cooldown: 5m}
fleet
# 08:00. A course begins: three students, each a small slice of an A30.
advance 5m
workbench course/ida 1g.6gb
workbench course/jan 1g.6gb
workbench course/kim 1g.6gb
advance 10m
expect workbench course/kim running on bea
# 09:00. Alice opens a notebook: a 1g.10gb is free already. Bob wants half a GPU,
# and Carol starts a training that opens its slice at once.
advance 50m
workbench team-a/alice 1g.10gb
advance 6m
workbench team-a/bob 3g.40gb
pod team-b/carol-training 4g.40gb works 4h opens
advance 15m
expect workbench team-a/alice running
expect workbench team-a/bob running
expect pod team-b/carol-training running
fleet
# 10:00. Dan and Eva each want a whole 7g.80gb. One is free. Who is in the way
# of the other, and what would help?
advance 45m
workbench team-b/dan 7g.80gb
workbench team-b/eva 7g.80gb
advance 15m
expect workbench team-b/eva pending
explain request team-b/eva
fleet
# 12:00. Everybody has lunch, and Alice's notebook sits idle with a slice that
# no process has open. The driver would let it be destroyed; Slicewright does not.
advance 1h45m
workbench course/lea 2g.12gb
advance 10m
expect workbench team-a/alice running
# 13:00. Carol's training ends, and Eva gets her GPU.
# 14:00. The node bea reboots. Its slices are lost; they are brought back.
advance 1h50m
expect workbench team-b/eva running on ada
reboot bea
advance 20m
expect node bea schedulable
# 17:00. People go home, and the GPUs are free for the night.
advance 2h40m
stop course/ida
stop course/jan
stop course/kim
stop course/lea
stop team-a/alice
stop team-a/bob
stop team-b/dan
stop team-b/eva
run until quiet
fleet
plan
