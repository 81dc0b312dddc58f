//! The record of our own work on a node, as its `GpuNode` stores it.

use api::GpuNode;
use rollout::Progress;
use rollout::progress::{Phase, Target};

/// Why what was remembered cannot be used. The node is held until a human has
/// looked: to start over would mean to forget a cordon, or a label of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "status.rollout.progress of its GpuNode cannot be read ({message}); it may be of a newer version of slicewright: go back to that, or run `slicewright release {node}`"
)]
pub struct Unreadable {
    /// The node.
    pub node: String,
    /// What the reader says.
    pub message: String,
}

/// The progress of a node's rollout as it was stored. A node of which nothing
/// is stored was never touched.
///
/// # Errors
/// When something is stored that cannot be read.
pub fn read(gpu_node: Option<&GpuNode>) -> Result<Progress, Unreadable> {
    let rollout = gpu_node.and_then(|node| node.status.as_ref()?.rollout.as_ref());
    let Some(stored) = rollout.and_then(|rollout| rollout.progress.as_ref()) else {
        return Ok(Progress::default());
    };
    serde_json::from_value(stored.clone()).map_err(|error| Unreadable {
        node: gpu_node.and_then(|node| node.metadata.name.clone()).unwrap_or_default(),
        message: error.to_string(),
    })
}

/// What is remembered of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Where its rollout is. The default where nothing is stored, or nothing
    /// that can be read.
    pub progress: Progress,
    /// Why what is stored cannot be read, if so.
    pub unreadable: Option<Unreadable>,
    /// Its GPUs are others than before, and its rollout was forgotten for that.
    pub swapped: bool,
}

impl Memory {
    /// What a `GpuNode` remembers.
    #[must_use]
    pub fn from_gpu_node(gpu_node: Option<&GpuNode>) -> Self {
        match read(gpu_node) {
            Ok(progress) => Self { progress, ..Self::default() },
            Err(error) => Self { unreadable: Some(error), ..Self::default() },
        }
    }

    /// A layout that was proved on other GPUs says nothing of those that are
    /// there now: a node whose GPUs were swapped is new to us, so that it is
    /// neither held to the layout before nor failed for want of it. One that is
    /// on its way to a new layout finds out by itself that it does not get there.
    pub fn forget_swapped(&mut self) {
        let restores = self.progress.target.as_ref().is_some_and(|target| target.restore);
        let may_forget = restores || matches!(self.progress.phase, Phase::Idle | Phase::Failed);
        if may_forget && self.progress != Progress::default() {
            self.progress = Progress::default();
            self.swapped = true;
        }
    }

    /// Whether a rollout of ours has begun and not ended, as far as is known.
    #[must_use]
    pub const fn is_on_its_way(&self) -> bool {
        self.unreadable.is_some() || !matches!(self.progress.phase, Phase::Idle)
    }

    /// Where the node goes for certain: its rollout is past the point of
    /// return, or its label (given) is written, whatever was stored.
    #[must_use]
    pub fn heads_for(&self, keys: &OperandKeys<'_>) -> Option<&Target> {
        let target = self.progress.target.as_ref()?;
        let label = if target.sharing.is_some() { keys.plugin } else { keys.manager };
        let is_written = Some(target.label.as_str()) == label && target.label_before.as_deref() != label;
        let is_over = matches!(self.progress.phase, Phase::Failed | Phase::Released);
        ((is_written || !self.progress.phase.can_return()) && !is_over).then_some(target)
    }
}

/// The configurations that the labels of a node name for its operands.
#[derive(Clone, Copy, Debug, Default)]
pub struct OperandKeys<'a> {
    /// For MIG manager: the entry of a layout.
    pub manager: Option<&'a str>,
    /// For the device plugin: the key of its configuration.
    pub plugin: Option<&'a str>,
}
