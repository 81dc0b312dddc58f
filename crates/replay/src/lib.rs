//! Replays a stream of requests against the planner and the rollout's rules in virtual time: which requests
//! get a slice, how long they wait, what changes and what stays idle. The same is done with layouts that
//! never change and with first fit and best fit, and there is a bound that no method can exceed.
//!
//! The planner ([`planner::decide`]), the checker of every plan, the rules for starting a node
//! ([`rollout::fleet::admit`]), and the estimated duration of a change ([`rollout::fleet::node_time`]) are
//! the real ones. The cluster is simplified, as described in [`run`].
//!
//! Pure and deterministic: the same trace, fleet and rules give the same
//! [`run::Replay`], byte for byte.

pub mod actuator;
mod admission;
pub mod bound;
pub mod figures;
pub mod fleet;
pub mod journal;
pub mod peak;
mod pick;
pub mod place;
pub mod player;
pub mod recorded;
pub mod run;
mod see;
mod stage;
mod target;
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
pub use trace::{Asked, Asker, Trace, TraceError};
