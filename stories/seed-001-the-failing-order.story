# Seed 001: `-cgi 19,19,14,9` (1g, 1g, 2g, 3g) fails at the 9 on an A100,
# although the four fit. The planner asks for the same four, and gives an
# order in which the driver's own choice of placement leads to them.
node dgx 1xA100-40GB labels pool=research
policy policies/research.yaml
workbench team-a/small-1 1g.5gb
workbench team-a/small-2 1g.5gb
workbench team-a/middle 2g.10gb
workbench team-a/large 3g.20gb
run until quiet
expect gpu dgx 0 1g.5gb:2 2g.10gb 3g.20gb
expect workbench team-a/large running
fleet
