# As in `what-was-promised-is-kept`, but who comes later has a higher priority.
# Bob reads that what he was told does not hold, and why.
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
pod team-c/carol 3g.40gb:2 priority 1000
run until quiet
expect pod team-c/carol running on n1
expect workbench team-a/bob pending
