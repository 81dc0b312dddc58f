# A pod whose init container has a slice. Kubelet's `List` leaves it out, its checkpoint has
# it. Fourteen pods of two teams compute on the other slices but one. For a third team the agent cuts
# that one, and not the slice of the init container, which nobody has open. When the pod
# has ended, its slice is there for who waits.
node n1 8xA100-80GB layout all-3g.40gb agent labels pool=research
node n2 8xA100-80GB layout all-3g.40gb labels pool=other taint example.com/team=other:NoSchedule
policy policies/research.yaml
apply:
  apiVersion: v1
  kind: Pod
  metadata: {name: prepare, namespace: team-d}
  spec:
    initContainers:
    - name: fetch
      resources: {requests: {nvidia.com/mig-3g.40gb: 1}, limits: {nvidia.com/mig-3g.40gb: 1}}
    containers:
    - name: main
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
workbench team-c/lab 1g.10gb
run until quiet
expect workbench team-c/lab running
workbench team-c/more 3g.40gb
run until quiet
expect workbench team-c/more pending
expect pod team-d/prepare running
explain node n1
end team-d/prepare
run until quiet
expect workbench team-c/more running
expect pod team-b/train-1 running
fleet
