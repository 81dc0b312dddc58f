//! The operator: observes the cluster, plans one round, does what is due, and says so.
