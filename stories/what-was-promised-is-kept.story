# A node of eight GPUs, somebody on one. Another is cut for bob, who reads when
# his slice will be ready. Then the operator is restarted, and somebody asks for
# two such slices on one node, which would serve more. What bob was told holds;
# who came later gets another GPU when the node may change again.
node n1 8xA100-80GB labels pool=research
policy policies/research.yaml
workbench team-b/lab 1g.10gb
run until quiet
advance 10m
workbench team-a/bob 3g.40gb
advance 2m10s
crash
pod team-c/carol 3g.40gb:2
run until quiet
expect workbench team-a/bob running
expect pod team-c/carol pending
