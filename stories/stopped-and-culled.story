# A stopped workbench asks for nothing, whoever stopped it. Started again, it
# asks again.
node n1 1xA100-80GB layout all-3g.40gb labels pool=research
policy policies/research.yaml
workbench team-a/lab 3g.40gb
run until quiet
stop team-a/lab culled
run until quiet
expect workbench team-a/lab stopped
explain request team-a/lab
expect said "asks for nothing"
start team-a/lab
run until quiet
expect workbench team-a/lab running
expect changes 0
