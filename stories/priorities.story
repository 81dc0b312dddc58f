# There is room for one 7g.80gb. The request with the higher priority gets it,
# although it came later; nobody who runs is disturbed.
node n1 1xA100-80GB layout all-1g.10gb labels pool=research
policy policies/research.yaml
workbench team-a/early 7g.80gb
workbench team-b/urgent 7g.80gb priority 100
run until quiet
expect workbench team-b/urgent running
expect workbench team-a/early pending
explain request team-a/early
