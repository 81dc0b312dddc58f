# Seed 004: which way of sharing suits which card, and where. A card with MIG is
# cut; one without takes turns; a virtual machine may have virtual GPUs. NFD's
# labels say whether a node is a machine of its own.
node iron 1xA100-80GB labels pool=research feature.node.kubernetes.io/cpu-cpuid.AVX2=true
node guest 1xA30 labels pool=research feature.node.kubernetes.io/cpu-cpuid.AVX2=true feature.node.kubernetes.io/cpu-cpuid.HYPERVISOR=true
node old 2xT4 labels pool=classroom feature.node.kubernetes.io/cpu-cpuid.AVX2=true
node small 1xL4 labels pool=classroom feature.node.kubernetes.io/cpu-cpuid.AVX2=true feature.node.kubernetes.io/cpu-cpuid.HYPERVISOR=true
policy policies/research.yaml
run until quiet
explain node iron
explain node guest
explain node old
expect said "time-slicing RECOMMENDED"
explain node small
