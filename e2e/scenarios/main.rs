//! What happens on a real control plane. One file for each behaviour; a
//! test's name is the sentence that it proves.

mod alerts;
mod any_cluster;
mod bounds;
mod budget;
mod cluster_faults;
mod cluster_workbenches;
mod comparison;
mod crashes;
mod crds;
mod demand;
mod demo_ends;
mod foreign_hands;
mod gitops_tools;
mod installation;
mod metrics;
mod mid_way;
mod modes;
mod needs;
mod olm_bundle;
mod onboarding;
mod openshift_ai;
mod other_stacks;
mod owners;
mod pods_in_the_way;
mod quiet;
mod refusals;
mod release;
mod reviewed;
mod seed_000;
mod snapshot;
mod static_policy;
mod trouble;
mod virtual_nodes;
