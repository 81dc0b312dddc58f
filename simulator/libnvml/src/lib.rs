//! NVIDIA's management library over simulated GPUs: a program that loads
//! `libnvidia-ml.so.1` cannot tell that there is no GPU.
