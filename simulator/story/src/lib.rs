//! Stories: events of a simulated fleet, written in a small language, and the cluster on which they are
//! executed, in virtual time.
//!
//! A story is parsed ([`parse()`]) and then executed ([`run()`]): nodes with simulated GPUs and NVIDIA's
//! operands, a scheduler, the controllers of OpenShift AI, users, and Slicewright's own pipeline: observe,
//! decide, check, advance, apply, publish. The end of every story is always checked in the same way:
//! planning again changes nothing, the plan is clean, and no slice was taken from a pod.

mod agent;
mod agent_process;
mod answers;
mod asked;
mod asks;
mod command;
mod config_maps;
mod counters;
mod entry;
mod eviction;
mod expect;
mod faults;
mod host;
mod manifests;
mod notebooks;
mod objects;
mod operator;
mod parse;
mod people;
mod picture;
mod place;
mod plan_round;
mod run;
mod scheduler;
mod store;
mod tell;
mod webhook;
mod words;
mod world;

pub use command::{
    COMMANDS, Command, EXPECTATIONS, Expectation, Key, Manifest, NodeSpec, PodSpec, Step, Stopper, Story,
    Topic, Usage, WorkbenchSpec,
};
pub use entry::{Entry, Who, clock};
pub use manifests::Files;
pub use parse::parse;
pub use picture::{GpuPicture, NodePicture, Picture, SlicePicture};
pub use place::{Place, StoryError, did_you_mean};
pub use run::{Ending, run};
pub use words::Word;
