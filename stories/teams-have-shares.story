# Eight GPUs. Team-c asks for all of them, with a higher priority than team-a,
# and gets four, which is the most that a team has. Team-a comes later and gets
# the two that it has as long as it asks for them.
node n1 8xA100-80GB labels pool=research
policy policies/shares.yaml
pod team-c/train-1 2g.20gb:3 priority 1000
pod team-c/train-2 2g.20gb:3 priority 1000
pod team-c/train-3 2g.20gb:3 priority 1000
pod team-c/train-4 2g.20gb:3 priority 1000
pod team-c/train-5 2g.20gb:3 priority 1000
pod team-c/train-6 2g.20gb:3 priority 1000
pod team-c/train-7 2g.20gb:3 priority 1000
pod team-c/train-8 2g.20gb:3 priority 1000
workbench team-a/one 3g.40gb:2
workbench team-a/two 3g.40gb:2
explain request team-c/train-8
run until quiet
expect workbench team-a/one running
expect workbench team-a/two running
expect pod team-c/train-4 running
expect pod team-c/train-5 pending
