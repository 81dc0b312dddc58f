# A node with eight H100 whose agent recut a GPU beside notebooks reboots. On Hopper MIG
# mode goes as well, and the agent does not switch it on: MIG manager gets the node, with
# an entry that describes what was verified last, while the node is closed. Afterwards the
# agent changes it as before.
node n1 8xH100-80GB layout all-balanced agent labels pool=research
node n2 8xH100-80GB layout all-balanced labels pool=other taint example.com/team=other:NoSchedule
policy policies/research.yaml
workbench team-a/train-1 3g.40gb:4
workbench team-a/train-2 3g.40gb:4
workbench team-c/lab 3g.40gb
run until quiet
expect workbench team-c/lab running
fleet
reboot n1
run until quiet max 2h
expect node n1 schedulable
expect workbench team-a/train-1 running
expect workbench team-a/train-2 running
expect workbench team-c/lab running
fleet
workbench team-c/next 3g.40gb
run until quiet max 2h
expect workbench team-c/next running
expect label n1 nvidia.com/gpu.deploy.mig-manager=false
