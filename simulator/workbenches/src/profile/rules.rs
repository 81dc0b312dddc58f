//! What differs between the webhooks of the releases.

/// How the webhook of a release, and of those after it up to the next in [`RULES`], writes a hardware profile into a
/// Notebook.
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
    /// Whether what the user says of nodes stays beside what the profile says, and goes with a profile that is not named
    /// any more.
    pub(super) merges: bool,
    /// Whether a Notebook may be changed whose profile is gone.
    pub(super) forgives: bool,
}

/// Which containers of a Notebook get the resources of its profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Containers {
    /// All of them, also the proxy beside the workbench: a slice for each.
    Every,
    /// The only one, or the one that is named like the Notebook.
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

/// Every release that differs, oldest first. Read in opendatahub-io/opendatahub-operator at the tags v2.35.0, v3.0.0 and
/// v3.4.0 (`internal/webhook/hardwareprofile`), and in opendatahub-io/workbenches-operator at v1.0.0, which has the
/// webhook from 3.5 on.
pub const RULES: [Rules; 4] = [
    Rules {
        release: "2.25",
        containers: Containers::Every,
        limits: Limits::Most,
        queue_decides: false,
        merges: false,
        forgives: false,
    },
    Rules {
        release: "3.0",
        containers: Containers::Every,
        limits: Limits::Most,
        queue_decides: true,
        merges: false,
        forgives: false,
    },
    Rules {
        release: "3.4",
        containers: Containers::Own,
        limits: Limits::AskedButMostOfStandard,
        queue_decides: true,
        merges: true,
        forgives: false,
    },
    Rules {
        release: "3.5",
        containers: Containers::Own,
        limits: Limits::Asked,
        queue_decides: true,
        merges: true,
        forgives: true,
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
