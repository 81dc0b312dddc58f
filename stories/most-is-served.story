# There is one GPU. Somebody asks for 1g.10gb, and right after that somebody
# else for all of it. With `order: MostServed`, the default, the later request
# is served, since it is for more; with `OldestFirst` it would wait
# (see the-oldest-comes-first).
node n1 1xA100-80GB layout all-3g.40gb labels pool=research
policy policies/research.yaml
workbench team-a/early 1g.10gb
workbench team-b/late 7g.80gb
run until quiet
expect workbench team-a/early pending
expect workbench team-b/late running
explain request team-a/early
