# What the agent has begun goes to its end, whoever fails on the way. The operator
# crashes while the node is held, and again while its slices are changed; the driver
# refuses to create a slice, so that what was destroyed is put back and the change is
# tried again later. The notebook beside it computes all the time.
node n1 2xA100-80GB layout all-balanced agent labels pool=research
policy policies/research.yaml
pod team-a/train 3g.40gb opens
pod team-a/other 3g.40gb opens
pod team-b/small 2g.20gb
run until quiet
workbench team-c/lab 3g.40gb
advance 1s
crash
advance 5s
crash
advance 5s
crash
run until quiet
expect workbench team-c/lab running
expect pod team-a/train running
expect pod team-a/other running
# The slice is given back, and the driver does not create the next one five times.
stop team-c/lab
run until quiet
fault n1 create-fails 5
workbench team-c/next 2g.20gb
workbench team-c/more 2g.20gb
run until quiet
expect workbench team-c/next running
expect pod team-a/train running
fleet
