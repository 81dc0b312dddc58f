//! Stories: what happens to a simulated fleet, told in a small language, and
//! the cluster that it happens to, in virtual time.
//!
//! A story is read ([`parse()`]), then it happens. Every story ends in the
//! same way, whether it says so or not: planning again changes nothing, the
//! plan is clean, and no slice was taken from a pod.

mod command;
mod parse;
mod place;
mod words;

pub use command::{
    COMMANDS, Command, EXPECTATIONS, Expectation, Key, Manifest, NodeSpec, PodSpec, Step, Stopper, Story,
    Topic, Usage, WorkbenchSpec,
};
pub use parse::parse;
pub use place::{Place, StoryError, did_you_mean};
pub use words::Word;
