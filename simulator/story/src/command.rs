//! The commands of a story, and the list of them for the reference.

use std::collections::BTreeMap;

use api::node_agent::AgentMode;
use jiff::{SignedDuration, Timestamp};
use mig::ProfileName;

use crate::place::Place;
use crate::words::Word;

/// A story that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One line of a story, with the block that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where it is.
    pub place: Place,
    /// The line as it was written, without blanks around it.
    pub text: String,
    /// What it means.
    pub command: Command,
}

/// Namespace and name.
pub type Key = (String, String);

/// The text of manifests, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manifest {
    /// A file; the path is relative to the story.
    File(Word),
    /// A block below the command.
    Block {
        /// The YAML, without the indentation that all its lines share.
        text: String,
        /// Where its first line starts.
        place: Place,
    },
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A remark for the reader; printed as it is.
    Remark(String),
    /// The story begins at this time.
    Clock(Timestamp),
    /// Nodes that exist from now on.
    Nodes(Vec<String>, NodeSpec),
    /// A namespace and its labels.
    Namespace(String, BTreeMap<String, String>),
    /// Manifests of policies.
    Policy(Manifest),
    /// Any manifests.
    Apply(Manifest),
    /// An object goes.
    Delete(&'static str, Word),
    /// A workbench: a Notebook.
    Workbench(Key, WorkbenchSpec),
    /// A bare pod.
    Pod(Key, PodSpec),
    /// A disruption budget for the pods of a workbench or with a label.
    Budget(Key, BTreeMap<String, String>, i32),
    /// A stopped workbench is started.
    Start(Key),
    /// A workbench is stopped, by its user or by the culler.
    Stop(Key, Stopper),
    /// A pod's work ends.
    End(Key),
    /// A process of the pod opens its slices.
    Open(Key),
    /// The processes of the pod close their slices.
    Close(Key),
    /// A person cordons a node.
    Cordon(String, String),
    /// A person uncordons a node.
    Uncordon(String),
    /// Labels of a node; without a value they go.
    Label(String, BTreeMap<String, Option<String>>),
    /// Somebody else chooses the layout of a node.
    Foreign(String, String),
    /// The agent of a node is installed, told what it may do, or uninstalled.
    Agent(String, Option<AgentMode>),
    /// A node reboots.
    Reboot(String),
    /// Something on a node is going to fail.
    Fault(String, Vec<operands::NodeFault>),
    /// The operator's process dies and starts again.
    Crash,
    /// The operator takes `slicewright.io/cordoned-by` off and uncordons a failed node, as `slicewright release`.
    Release(String),
    /// Time passes.
    Advance(SignedDuration),
    /// Time passes until nothing is on its way, but no more than this.
    RunUntilQuiet(SignedDuration),
    /// What would be done now.
    Plan,
    /// Why something is as it is.
    Explain(Topic),
    /// A picture of the fleet.
    Fleet,
    /// What must be true now.
    Expect(Expectation),
}

/// What a node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// How many GPUs of which model, in the order of their indices.
    pub gpus: Vec<(u16, Word)>,
    /// Labels beside those of NFD, GFD and the GPU Operator.
    pub labels: BTreeMap<String, String>,
    /// The strategy of the device plugin is `single`; `mixed` when not.
    pub single: bool,
    /// MIG mode is on from the beginning.
    pub mig: bool,
    /// The name of the map entry that is applied at the beginning.
    pub layout: Option<Word>,
    /// Slices by an agent.
    pub agent: bool,
    /// Cores.
    pub cpu: u32,
    /// GiB.
    pub memory: u32,
    /// Taints: key, value, effect.
    pub taints: Vec<(String, String, String)>,
}

/// What a workbench asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkbenchSpec {
    /// The slices that its container asks for.
    pub slices: BTreeMap<ProfileName, u32>,
    /// How many whole GPUs (`nvidia.com/gpu`).
    pub whole_gpus: u32,
    /// How many shares of GPUs (`nvidia.com/gpu.shared`).
    pub shares: u32,
    /// The hardware profile: name and, when it is not the dashboard's, namespace.
    pub profile: Option<Word>,
    /// The pod priority.
    pub priority: i32,
    /// The node selector.
    pub selector: BTreeMap<String, String>,
    /// Cores.
    pub cpu: Option<u32>,
    /// GiB.
    pub memory: Option<u32>,
}

/// What a bare pod asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSpec {
    /// What it asks for.
    pub asks: WorkbenchSpec,
    /// How long it works once it runs; until it is told to end when absent.
    pub works: Option<SignedDuration>,
    /// It opens its slices as soon as it runs.
    pub opens: bool,
}

/// Who stops a workbench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopper {
    /// Its user.
    User,
    /// The culling controller, because nobody used it.
    Culler,
}

/// What is explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topic {
    /// A request, by the workbench or pod that asks.
    Request(Key),
    /// A node.
    Node(String),
    /// A policy.
    Policy(String),
}

/// What must be true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// A workbench (its pod) or a pod is in this state, and on this node.
    Workload {
        /// Whether it is a workbench.
        workbench: bool,
        /// Which.
        key: Key,
        /// `running`, `pending`, `stopped`, `gone`, `failed` or `succeeded`.
        state: &'static str,
        /// On which node.
        node: Option<String>,
    },
    /// So many of a resource are allocatable on a node.
    Allocatable {
        /// The node.
        node: String,
        /// A profile, or a resource name.
        resource: String,
        /// How many.
        count: i64,
    },
    /// A node is in this state.
    Node {
        /// The node.
        node: String,
        /// `cordoned`, `schedulable`, `failed`, `settled` or `changing`.
        state: &'static str,
    },
    /// A node's label has this value; without one, it is not there.
    Label {
        /// The node.
        node: String,
        /// The key.
        key: String,
        /// The value.
        value: Option<String>,
    },
    /// A GPU is cut into exactly this.
    Gpu {
        /// Its node.
        node: String,
        /// Its index.
        gpu: u16,
        /// The slices; `None` when MIG should be off.
        slices: Option<BTreeMap<ProfileName, u32>>,
    },
    /// The plan has this many node changes.
    Plan {
        /// How many; none when the plan should be empty.
        changes: usize,
    },
    /// The plan leaves this many requests unserved.
    Unserved {
        /// How many.
        count: usize,
    },
    /// Somebody was told something that contains this.
    Notified {
        /// Who: the workbench's or pod's key, a policy or a node.
        who: Word,
        /// The text.
        text: String,
    },
    /// The last `plan`, `explain` or `fleet` printed this.
    Output {
        /// The text.
        text: String,
    },
    /// A policy has this condition.
    Condition {
        /// The policy.
        policy: String,
        /// The type.
        kind: String,
        /// `True`, `False` or `Unknown`.
        status: &'static str,
        /// The reason.
        reason: Option<String>,
    },
    /// So many pods have been evicted since the story began.
    Evictions(usize),
    /// So many node changes have been started since the story began.
    Changes(usize),
    /// So many slices were taken from pods since the story began, against
    /// invariant 1. Zero is expected of every story at its end anyway.
    Breaches(usize),
}

/// One command of the language, as the reference lists it.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// The word that it begins with.
    pub word: &'static str,
    /// How it is written: `[…]` may be left out, CAPITALS stand for a value.
    pub form: &'static str,
    /// What it does, in a sentence or two.
    pub meaning: &'static str,
}

const fn usage(word: &'static str, form: &'static str, meaning: &'static str) -> Usage {
    Usage { word, form, meaning }
}

/// Every command, in the order of the reference.
pub const COMMANDS: &[Usage] = &[
    usage(
        "clock",
        "clock TIMESTAMP",
        "The time at which the story begins; it must be the first command. The default is 2026-03-02T09:00:00Z, a Monday.",
    ),
    usage(
        "node",
        "node NAME[..NAME] GPUS [labels K=V…] [strategy mixed|single] [mig off] [layout ENTRY] [agent] [cpu CORES] [memory GIB] [taint KEY=VALUE:EFFECT]",
        "A node, or a series of nodes (n1..n10). GPUS is COUNTxMODEL, several joined by `+`. MIG mode is on, with one full-size slice per GPU, unless `mig off` or a `layout` (an entry of NVIDIA's default map, such as all-1g.10gb) is given. `agent`: exact placements are known and single slices can change; without it the GPU Operator's operands change the node.",
    ),
    usage(
        "namespace",
        "namespace NAME [K=V…]",
        "A namespace and its labels. A namespace that is only mentioned exists without labels.",
    ),
    usage(
        "policy",
        "policy FILE | policy: BLOCK",
        "GpuPartitionPolicy manifests, from a file beside the story or from the indented lines below.",
    ),
    usage(
        "apply",
        "apply FILE | apply: BLOCK",
        "Manifests of any kind that is read: Notebook, HardwareProfile, Pod, Node, Namespace, ConfigMap, PodDisruptionBudget, PriorityClass, GpuPartitionPolicy.",
    ),
    usage(
        "delete",
        "delete policy|workbench|pod|node|profile NAME",
        "The object is deleted. Namespaced objects are written as NAMESPACE/NAME.",
    ),
    usage(
        "workbench",
        "workbench NAMESPACE/NAME [SLICE…] [gpus N] [shares N] [profile NAME] [priority N] [selector K=V…] [cpu CORES] [memory GIB]",
        "A user starts a workbench: a Notebook whose container requests the slices (1g.10gb, or 1g.10gb:2), or whose hardware profile does.",
    ),
    usage(
        "pod",
        "pod NAMESPACE/NAME [SLICE…] [gpus N] [shares N] [priority N] [selector K=V…] [cpu CORES] [memory GIB] [works DURATION] [opens]",
        "A pod without an owner. It works for the duration, or until `end`. `opens`: a process opens its slices as soon as it runs.",
    ),
    usage(
        "budget",
        "budget NAMESPACE/NAME MIN-AVAILABLE K=V…",
        "A PodDisruptionBudget: at least this number of the pods with these labels must stay.",
    ),
    usage("start", "start NAMESPACE/NAME", "The user starts a stopped workbench."),
    usage("stop", "stop NAMESPACE/NAME [culled]", "The user stops a workbench, or the culler does."),
    usage("end", "end NAMESPACE/NAME", "The work of a pod is done."),
    usage(
        "open",
        "open NAMESPACE/NAME",
        "A process of the workbench or pod opens its slices. Until then the slices are allocated and not in use, which is an idle notebook.",
    ),
    usage("close", "close NAMESPACE/NAME", "The processes of the workbench or pod close its slices."),
    usage("cordon", "cordon NODE [by WHO]", "A person makes a node unschedulable."),
    usage("uncordon", "uncordon NODE", "A person makes a node schedulable again."),
    usage("label", "label NODE KEY=VALUE… | label NODE KEY-", "Labels of a node change, or go."),
    usage(
        "foreign",
        "foreign NODE ENTRY",
        "Another client writes the label nvidia.com/mig.config of a node.",
    ),
    usage(
        "agent",
        "agent NODE changes|reports|gone",
        "The node gets an agent that changes slices, one that only reports, or none: its pod is gone, and what it reported stays.",
    ),
    usage("reboot", "reboot NODE", "A node reboots; its instances are lost."),
    usage(
        "fault",
        "fault NODE FAULT…",
        "Something on the node fails from now on, or once. The faults are listed below.",
    ),
    usage("release", "release NODE", "A person runs `slicewright release`: what we cordoned is uncordoned."),
    usage("crash", "crash", "The operator's process dies and starts again, with nothing in memory."),
    usage("advance", "advance DURATION", "Time passes (30s, 10m, 1h30m)."),
    usage(
        "run",
        "run until quiet [max DURATION]",
        "Time passes until nothing is in progress, at most for this duration (the default is 4h).",
    ),
    usage("plan", "plan", "Prints what would be done now, and why not more."),
    usage(
        "explain",
        "explain request NAMESPACE/NAME | explain node NAME | explain policy NAME",
        "Prints why something is as it is, and what would help.",
    ),
    usage("fleet", "fleet", "Prints a picture of the fleet."),
    usage(
        "expect",
        "expect EXPECTATION",
        "A condition that must hold now; otherwise the story fails. The expectations are listed below.",
    ),
];

/// Every expectation, in the order of the reference.
pub const EXPECTATIONS: &[Usage] = &[
    usage(
        "workbench",
        "expect workbench NAMESPACE/NAME running|pending|stopped|gone [on NODE]",
        "The state of a workbench.",
    ),
    usage(
        "pod",
        "expect pod NAMESPACE/NAME running|pending|gone|failed|succeeded [on NODE]",
        "The state of a pod.",
    ),
    usage("allocatable", "expect allocatable NODE PROFILE|RESOURCE COUNT", "What the node offers."),
    usage("node", "expect node NODE cordoned|schedulable|failed|settled|changing", "How the node is."),
    usage(
        "label",
        "expect label NODE KEY=VALUE | expect label NODE KEY-",
        "A label has this value, or is not there.",
    ),
    usage(
        "gpu",
        "expect gpu NODE INDEX SLICE… | expect gpu NODE INDEX empty|off",
        "The slices of a GPU, in the hardware.",
    ),
    usage("plan", "expect plan empty | expect plan COUNT", "How many nodes the plan would change."),
    usage("unserved", "expect unserved COUNT", "How many requests the plan leaves without their slices."),
    usage(
        "told",
        "expect told WHO \"TEXT\"",
        "A workbench or pod (NAMESPACE/NAME), a policy or a node got a message that contains the text.",
    ),
    usage("said", "expect said \"TEXT\"", "The last plan, explain or fleet printed the text."),
    usage(
        "condition",
        "expect condition POLICY TYPE True|False|Unknown [REASON]",
        "A condition of a policy.",
    ),
    usage("evictions", "expect evictions COUNT", "How many pods were evicted so far."),
    usage("changes", "expect changes COUNT", "How many changes of nodes were started so far."),
    usage(
        "breaches",
        "expect breaches COUNT",
        "How many slices were taken from pods that hold them. Every story expects none at its end, even without this line.",
    ),
];
