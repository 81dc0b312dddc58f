# As in `what-was-promised-is-kept`, but who comes later has a higher priority.
# Bob reads that what he was told does not hold, and why.
node n1 8xA100-80GB labels pool=research
policy policies/research.yaml
workbench team-b/lab 1g.10gb
run until quiet
advance 10m
workbench team-a/bob 3g.40gb
advance 2m10s
pod team-c/carol 3g.40gb:2 priority 1000
run until quiet
expect pod team-c/carol running on n1
