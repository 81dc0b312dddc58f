//! nvidia-smi's MIG command line and text formats. It asks whatever
//! `libnvidia-ml.so.1` it finds, and nothing else.
