# A node reboots under a workbench. Its instances are lost; they are cut again
# as they were, proved, and the workbench comes back.
node n1 1xA100-80GB labels pool=research
policy policies/research.yaml
workbench team-a/lab 1g.10gb
run until quiet
reboot n1
run until quiet max 2h
expect workbench team-a/lab running on n1
expect node n1 schedulable
