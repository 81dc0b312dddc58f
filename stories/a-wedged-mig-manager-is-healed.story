# MIG manager 0.15.0 gives up without a word when an operand does not stop: the
# node stays pending with everything parked. Its pod is replaced, and the
# change is proved.
node n1 1xA100-80GB labels pool=research
policy policies/research.yaml
fault n1 does-not-stop dcgm-exporter
workbench team-a/lab 1g.10gb
advance 8m
fault n1 clear
run until quiet max 2h
expect workbench team-a/lab running
expect node n1 schedulable
