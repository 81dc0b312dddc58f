# Seed 004: the labels of NFD and GPU feature discovery are read as they are
# written on OpenShift, where those of GFD vanish while a node changes.
node n1 1xH100-80GB labels pool=research
policy policies/research.yaml
expect label n1 feature.node.kubernetes.io/pci-10de.present=true
expect label n1 nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3
workbench lab/a 2g.20gb
advance 2m30s
expect label n1 nvidia.com/gpu.product-
run until quiet
expect label n1 nvidia.com/mig-2g.20gb.count=3
explain node n1
