//! What differs between the webhooks of the releases.

/// How the webhook of a release, and of those after it up to the next in [`RULES`], writes a hardware profile into a
/// workbench or a model server.
#[derive(Debug)]
pub struct Rules {
    /// The release of OpenShift AI with which they begin.
    pub release: &'static str,
    /// Which containers get the resources.
    pub(super) containers: Containers,
    /// How much is the limit of a resource.
    pub(super) limits: Limits,
    /// Whether a profile with a queue says nothing of nodes.
    pub(super) queue_decides: bool,
    /// What becomes of what the user says of nodes.
    pub(super) nodes: Nodes,
    /// Whether the resources of a Notebook go with a profile that is not named any more, when another one is.
    pub(super) clears_resources: bool,
    /// Whether a Notebook may be changed whose profile is gone.
    pub(super) forgives: bool,
    /// Which model servers are reviewed, and by whom.
    pub(super) servers: Servers,
}

/// Which containers of a Notebook or an `LLMInferenceService` get the resources of its profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Containers {
    /// All of them, also the proxy beside the workbench: a slice for each.
    Every,
    /// Of a Notebook, the only one or the one that is named like it; of an `LLMInferenceService`, the one that is named
    /// `main`.
    Own,
}

/// How much of a resource is the limit, beside the default count that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limits {
    /// The maximum count; none where the profile has none.
    Most,
    /// What is asked for; of CPU, memory and storage the maximum count, if there is one.
    AskedButMostOfStandard,
    /// What is asked for.
    Asked,
}

/// What becomes of the node selector and the tolerations that the user wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nodes {
    /// A selector of the profile takes the place of the user's, and so do tolerations. Of what the profile does not say,
    /// the user's stays.
    Replaced,
    /// Both go at each write, and the label of a queue too; then the profile's are written.
    Cleared,
    /// They stay beside those of the profile, and go with a profile that is not named any more.
    Merged,
}

/// Which model servers are reviewed, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Servers {
    /// Each `InferenceService`, by the webhook that reviews Notebooks.
    OfOneKind,
    /// Each `LLMInferenceService` as well.
    OfBothKinds,
    /// Both kinds, by odh-model-controller, which has words of its own for a profile that is not there, and warns
    /// nobody who writes: it makes an event at most.
    ByModelController,
}

/// Every release that differs, oldest first. Read in opendatahub-io/opendatahub-operator at the tags v2.35.0, v3.0.0,
/// v3.2.0, v3.3.0 and v3.4.0 (`internal/webhook/hardwareprofile`). From 3.5 on Notebooks are reviewed by
/// opendatahub-io/workbenches-operator, read at v1.0.0, and model servers by opendatahub-io/odh-model-controller, read
/// at 57b43aa of 2026-07-23 (`internal/webhook/serving`).
pub const RULES: [Rules; 5] = [
    Rules {
        release: "2.25",
        containers: Containers::Every,
        limits: Limits::Most,
        queue_decides: false,
        nodes: Nodes::Replaced,
        clears_resources: false,
        forgives: false,
        servers: Servers::OfOneKind,
    },
    Rules {
        release: "3.0",
        containers: Containers::Every,
        limits: Limits::Most,
        queue_decides: true,
        nodes: Nodes::Replaced,
        clears_resources: false,
        forgives: false,
        servers: Servers::OfBothKinds,
    },
    Rules {
        release: "3.2",
        containers: Containers::Every,
        limits: Limits::Most,
        queue_decides: true,
        nodes: Nodes::Cleared,
        clears_resources: false,
        forgives: false,
        servers: Servers::OfBothKinds,
    },
    Rules {
        release: "3.4",
        containers: Containers::Own,
        limits: Limits::AskedButMostOfStandard,
        queue_decides: true,
        nodes: Nodes::Merged,
        clears_resources: false,
        forgives: false,
        servers: Servers::OfBothKinds,
    },
    Rules {
        release: "3.5",
        containers: Containers::Own,
        limits: Limits::Asked,
        queue_decides: true,
        nodes: Nodes::Merged,
        clears_resources: true,
        forgives: true,
        servers: Servers::ByModelController,
    },
];

/// The rules of the newest release.
#[must_use]
pub const fn newest() -> &'static Rules {
    &RULES[RULES.len() - 1]
}

/// The rules that begin with a release.
#[must_use]
pub fn of_release(release: &str) -> Option<&'static Rules> {
    RULES.iter().find(|rules| rules.release == release)
}
