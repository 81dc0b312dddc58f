# A policy is merged with the annotations of its review (`slicewright plan` prints them). In between the pool has got
# another node: the policy says once what moved. It decides nothing, and the fleet follows; to hold a change back, merge
# it with mode: Preview.
node n1 1xA100-80GB layout all-1g.10gb labels pool=research
node n2 1xA100-80GB layout all-1g.10gb labels pool=research
run until quiet
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata:
    name: research
    annotations:
      slicewright.io/reviewed-plan: plan=44a2e83b23c9c744,policies=2d04237527c8314b,nodes=0480a13d17da3269,demand=4f53cda18c2baa0c
      slicewright.io/reviewed-nodes: n1=b78ffd00
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    layout:
      type: Static
      static: {gpus: [{slices: [{profile: 3g.40gb, count: 2}]}]}

run until quiet
expect told research "since then 1 node was added: n2"
expect allocatable n1 3g.40gb 2
expect allocatable n2 3g.40gb 2
