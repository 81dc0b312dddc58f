//! The integration tests of this crate, in one program: each module is one file of tests.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod admitted;
mod checks;
mod cluster;
mod gangs_apart;
mod gangs_together;
mod kept;
mod leaders;
mod mangled;
mod many_agents;
mod many_pods;
mod menu;
mod nothing_to_wait_for;
mod obstacles;
mod other_checks;
mod plugin_map;
mod promises;
mod protection;
mod published;
mod queues;
mod recorded;
mod remembered;
mod replaced;
mod review;
mod rooms;
mod run_again;
mod said;
mod send_back;
mod surge;
mod tenants;
mod transitions;
mod under_way;
mod unguarded;
mod unread_queues;
mod waiting;
