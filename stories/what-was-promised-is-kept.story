# A node of eight GPUs, seven of which are in use. The eighth is cut for bob, who
# reads when his slice will be ready. Then somebody asks for two such slices on
# one node, which would serve more; and the operator is restarted. What bob was
# told holds.
node n1 8xA100-80GB labels pool=research
policy policies/research.yaml
pod team-b/train-1 7g.80gb
pod team-b/train-2 7g.80gb
pod team-b/train-3 7g.80gb
pod team-b/train-4 7g.80gb
pod team-b/train-5 7g.80gb
pod team-b/train-6 7g.80gb
pod team-b/train-7 7g.80gb
advance 10s
workbench team-a/bob 3g.40gb
advance 2m10s
crash
pod team-c/carol 3g.40gb:2
run until quiet
expect workbench team-a/bob running
expect pod team-c/carol pending
