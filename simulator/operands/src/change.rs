//! Changes of the node, as a watcher of the API would see them, as data and as sentences.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use crate::operand::{Operand, OperandPhase};
use crate::pod::{PodName, PodPhase};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: What,
}

/// What can change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum What {
    /// A label of the node; `None` once it is gone.
    Label {
        /// Its key.
        key: String,
        /// Its value.
        value: Option<String>,
    },
    /// Whether the node is cordoned.
    Unschedulable(bool),
    /// Whether the node is ready.
    Ready(bool),
    /// The node booted.
    Booted {
        /// The new boot's id.
        boot_id: String,
    },
    /// An extended resource that pods can have now.
    Allocatable {
        /// The resource.
        resource: String,
        /// How many.
        count: u64,
    },
    /// An extended resource that the node has.
    Capacity {
        /// The resource.
        resource: String,
        /// How many.
        count: u64,
    },
    /// A pod of an operand; `None` once it is gone.
    Operand {
        /// Whose.
        operand: Operand,
        /// Its name.
        name: String,
        /// Where it is in its life.
        phase: Option<OperandPhase>,
    },
    /// A user's pod.
    Pod {
        /// Its name.
        name: PodName,
        /// Where it is in its life.
        phase: PodPhase,
    },
    /// What MIG manager writes to its log.
    ManagerLog {
        /// The sentence.
        text: String,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.what.fmt(f)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label { key, value: Some(value) } => write!(f, "Label {key} is {value}."),
            Self::Label { key, value: None } => write!(f, "Label {key} is gone."),
            Self::Unschedulable(true) => f.write_str("The node is cordoned."),
            Self::Unschedulable(false) => f.write_str("The node is schedulable."),
            Self::Ready(true) => f.write_str("The node is ready."),
            Self::Ready(false) => f.write_str("The node is not ready."),
            Self::Booted { boot_id } => write!(f, "The node booted (boot id {boot_id})."),
            Self::Allocatable { resource, count } => write!(f, "Allocatable {resource} is {count}."),
            Self::Capacity { resource, count } => write!(f, "Capacity {resource} is {count}."),
            Self::Operand { name, phase: None, .. } => write!(f, "Pod {name} is gone."),
            Self::Operand { name, phase: Some(phase), .. } => match phase {
                OperandPhase::Starting => write!(f, "Pod {name} is created."),
                OperandPhase::Ready => write!(f, "Pod {name} is ready."),
                OperandPhase::CrashLooping => write!(f, "Pod {name} crashes again and again."),
                OperandPhase::Terminating => write!(f, "Pod {name} is terminating."),
            },
            Self::Pod { name, phase } => match phase {
                PodPhase::Starting => write!(f, "Pod {name} is bound and starts."),
                PodPhase::Running => write!(f, "Pod {name} runs."),
                PodPhase::Failed { reason, message } => write!(f, "Pod {name} failed: {reason}: {message}."),
            },
            Self::ManagerLog { text } => write!(f, "MIG manager: {text}."),
        }
    }
}
