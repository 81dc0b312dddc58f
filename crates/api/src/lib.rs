//! The types of the Kubernetes API: our own, and the foreign ones that we read.
