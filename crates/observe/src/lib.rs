//! Kubernetes objects to inventory, demand and policies. Pure: the objects are handed in.
