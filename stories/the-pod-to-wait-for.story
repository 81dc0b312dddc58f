# An explanation names the pod that has to end, proved by planning without it.
# When that pod ends, the workbench starts.
node n1 1xA100-80GB layout all-4g.40gb labels pool=research
policy policies/research.yaml
pod team-a/train 4g.40gb works 3h
run until quiet
workbench team-b/lab 4g.40gb
run until quiet
explain request team-b/lab
expect said "team-a/train ends"
advance 3h
run until quiet
expect workbench team-b/lab running
