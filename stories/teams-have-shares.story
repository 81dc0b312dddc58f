# Four of eight GPUs are in use by team-b, which has no more of them, though it
# asks; four are left for others. Team-a comes later and with a lower priority
# than team-c, and gets the two that it has as long as it asks for them.
node n1 8xA100-80GB labels pool=research
policy policies/shares.yaml
pod team-b/train-1 7g.80gb
pod team-b/train-2 7g.80gb
pod team-b/train-3 7g.80gb
pod team-b/train-4 7g.80gb
advance 10s
pod team-b/train-5 1g.10gb priority 1000
workbench team-c/one 3g.40gb:2 priority 1000
workbench team-c/two 3g.40gb:2 priority 1000
workbench team-c/three 3g.40gb:2 priority 1000
workbench team-c/four 3g.40gb:2 priority 1000
workbench team-a/one 7g.80gb
workbench team-a/two 7g.80gb
explain request team-b/train-5
run until quiet
expect workbench team-a/one running
expect workbench team-a/two running
expect pod team-b/train-5 pending
