//! The walk with an agent, played against the agent's own core and the model of a kubelet with which that is
//! tested: whatever happens in whichever order, no slice that a pod was given is destroyed, every change
//! ends, and no node stays held.

#[path = "../../../../agent/tests/it/model/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the model also serves the tests of the agent")]
mod model;

mod believed;
mod evictions;
mod evidence;
mod killed;
mod others;
mod play;
mod reboots;
mod silent;
mod stories;
mod walk;
