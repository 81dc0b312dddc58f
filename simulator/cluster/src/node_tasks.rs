//! The tasks of a node, from when it comes until it goes: one drives it, and one is its heartbeat.

use std::sync::Arc;

use crate::error::Error;
use crate::fleet::NodeSpec;
use crate::shared::Shared;
use crate::{lease, perform};

/// A node comes.
pub(crate) fn start(shared: &Arc<Shared>, spec: NodeSpec) -> Result<(), Error> {
    let kept = shared.add(spec)?;
    shared.tasks.spawn(lease::renew(Arc::clone(shared), Arc::clone(&kept)));
    shared.tasks.spawn(perform::drive(Arc::clone(shared), kept));
    Ok(())
}
