# Whoever asks for nvidia.com/gpu is not served from MIG nodes, and is told so.
node n1 1xA100-80GB labels pool=research
policy policies/research.yaml
workbench team-a/lab gpus 1
run until quiet
explain request team-a/lab
expect said "not served from MIG nodes"
expect changes 0
