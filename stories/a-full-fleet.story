# Every slice is in use, and one workbench more comes. It is told why it waits,
# for whom, and what else would help.
node n1 1xA30 layout all-2g.12gb labels pool=research
policy policies/research.yaml
pod team-a/one 2g.12gb
pod team-a/two 2g.12gb
run until quiet
workbench team-b/late 2g.12gb
run until quiet
explain request team-b/late
expect said "one more A30"
expect told team-b/late "What would help"
