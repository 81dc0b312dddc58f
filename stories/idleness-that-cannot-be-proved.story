# Two GPUs with the same profiles, and one pod that holds one slice. Without an
# agent nobody can tell which GPU it is on, so neither is cut.
node n1 2xA100-80GB layout all-3g.40gb labels pool=research
policy policies/research.yaml
pod team-a/train 3g.40gb
run until quiet
workbench team-b/lab 7g.80gb
run until quiet
expect workbench team-b/lab pending
explain request team-b/lab
expect said "it is not known which of their slices pods hold"
