//! What the operands of the GPU Operator and the kubelet do to one node, over simulated GPUs. Pure.
