# Nothing is planned for whoever asks for nvidia.com/gpu, who is told so.
node n1 1xA100-80GB labels pool=research
policy policies/research.yaml
workbench team-a/lab gpus 1
run until quiet
explain request team-a/lab
expect said "only GPUs with MIG off serve them"
expect changes 0
