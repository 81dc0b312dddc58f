//! A stream of requests, played against the planner and the rollout's rules in
//! virtual time: who gets a slice, who waits for how long, what changes and
//! what stays idle; and the same with layouts that never change, with first
//! fit and best fit, and what nobody could do better.
//!
//! Real are the planner ([`planner::decide`]), the checker that looks at every
//! plan, the rules of who may start to change ([`rollout::fleet::admit`]), and
//! the times that a change is estimated at ([`rollout::fleet::node_time`]).
//! Simplified is the cluster: [`run`] says how.
//!
//! Pure and deterministic: the same trace, fleet and rules give the same
//! [`run::Replay`], byte for byte.

pub mod actuator;
pub mod bound;
pub mod figures;
pub mod fleet;
pub mod journal;
pub mod peak;
mod pick;
pub mod place;
pub mod player;
pub mod run;
mod see;
mod stage;
mod timeline;
pub mod trace;
mod world;

pub use actuator::Actuator;
pub use bound::{Bound, bound};
pub use figures::Figures;
pub use fleet::Fleet;
pub use journal::{Change, Holding, Journal};
pub use peak::peak_layouts;
pub use place::Scheduler;
pub use player::Player;
pub use run::{Replay, ReplayError, Rules, replay};
pub use timeline::{Level, Timeline};
pub use trace::{Asked, Trace, TraceError};
