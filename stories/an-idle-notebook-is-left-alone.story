# A notebook runs and has never opened its slice. The driver would let the
# slice be destroyed; we do not. Allocation counts, not use.
node n1 1xA100-80GB layout all-7g.80gb labels pool=research
policy policies/research.yaml
workbench team-a/idle 7g.80gb
run until quiet
workbench team-b/eager 1g.10gb
run until quiet
expect workbench team-a/idle running
expect workbench team-b/eager pending
explain request team-b/eager
expect said "team-a/idle-0"
expect evictions 0
# Only when its user stops it, the GPU is cut.
stop team-a/idle
run until quiet
expect workbench team-b/eager running
