# Seed 002, strategy mixed: the pod selects nodes by a label that counts the
# slices. No node has it yet; after the change one will.
node n1 1xA100-40GB labels pool=research
policy policies/research.yaml
pod lab/vectoradd 1g.5gb selector nvidia.com/mig-1g.5gb.product=NVIDIA-A100-SXM4-40GB-MIG-1g.5gb
run until quiet
expect pod lab/vectoradd running on n1
