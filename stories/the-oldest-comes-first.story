# There is one GPU. Somebody asks for 1g.10gb, and right after that somebody
# else for all of it. With `order: OldestFirst` the later request waits, although
# it is for more.
node n1 1xA100-80GB layout all-3g.40gb labels pool=research
policy policies/queue.yaml
workbench team-a/early 1g.10gb
workbench team-b/late 7g.80gb
run until quiet
expect workbench team-a/early running
expect workbench team-b/late pending
explain request team-b/late
