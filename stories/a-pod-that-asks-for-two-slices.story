# Two 3g.40gb for one pod come from one node. Two half-free nodes would not do.
node n1 1xA100-80GB layout all-3g.40gb labels pool=research
node n2 1xA100-80GB layout all-3g.40gb labels pool=research
policy policies/research.yaml
pod team-a/one 3g.40gb
run until quiet
pod team-a/two 3g.40gb:2
run until quiet
expect pod team-a/two running on n2
pod team-a/too-many 3g.40gb:3
run until quiet
explain request team-a/too-many
expect said "more 3g.40gb than one node can have"
