//! What happens on a real control plane. One file for each behaviour; a
//! test's name is the sentence that it proves.

mod bounds;
mod cluster_faults;
mod cluster_workbenches;
mod crds;
mod demand;
mod modes;
mod seed_000;
mod static_policy;
mod virtual_nodes;
