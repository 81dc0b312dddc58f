# A pod ends while the kubelet gives a slice to another one, and the agent asks for `List` at
# that moment: the kubelet forgets the choice, and gives the slice to a third pod as well
# (kubernetes#137534). Nobody takes it from either of them: that is told and not resolved. When
# one of them ends, the other one keeps the slice, whatever anybody waits for.
node n1 8xA100-80GB layout all-3g.40gb agent labels pool=research
node n2 8xA100-80GB layout all-3g.40gb labels pool=other taint example.com/team=other:NoSchedule
policy policies/research.yaml
fault n1 list-forgets
pod team-b/train-1 3g.40gb opens
pod team-a/train-2 3g.40gb opens
pod team-b/train-3 3g.40gb opens
pod team-a/train-4 3g.40gb opens
pod team-b/train-5 3g.40gb opens
pod team-a/train-6 3g.40gb opens
pod team-b/train-7 3g.40gb opens
pod team-a/train-8 3g.40gb opens
pod team-b/train-9 3g.40gb opens
pod team-a/train-10 3g.40gb opens
pod team-b/train-11 3g.40gb opens
pod team-a/train-12 3g.40gb opens
pod team-b/train-13 3g.40gb opens
pod team-a/train-14 3g.40gb opens
run until quiet
fault n1 books-lag 30s
pod team-c/first 3g.40gb
advance 1s
end team-a/train-14
advance 3s
pod team-d/second 3g.40gb
advance 1s
pod team-d/third 3g.40gb
run until quiet
expect pod team-c/first running
expect pod team-d/third running
explain node n1
workbench team-e/lab 1g.10gb
run until quiet
expect workbench team-e/lab running
end team-c/first
run until quiet
workbench team-e/more 3g.40gb
workbench team-e/next 3g.40gb
run until quiet
expect pod team-d/second running
expect pod team-d/third running
expect workbench team-e/next pending
fleet
