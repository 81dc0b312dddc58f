//! What differs between releases of OpenShift AI.

use super::queue::Words;

/// A release, and those after it up to the next in [`RELEASES`].
#[derive(Debug)]
pub struct Release {
    /// The version of the dashboard with which it begins.
    pub name: &'static str,
    /// Whether events from before the last activity count.
    pub(super) counts_old: bool,
    /// Whether the heaviest of several newest events of one moment is shown,
    /// and not the last of the list.
    pub(super) heaviest_of_a_moment: bool,
    /// How it speaks of containers.
    pub(super) containers: Containers,
    /// How it speaks of queues; nothing where it does not know them.
    pub(super) queue: Option<Words>,
}

/// How a release speaks of containers, and of a `Normal` event that it does
/// not know.
#[derive(Debug)]
pub(super) enum Containers {
    /// There are two of them. What it does not know is a problem of the first.
    Two {
        unknown: &'static str,
        /// What an event has in its message that is about the second.
        marks: &'static [&'static str],
        /// The name of the second, at the start of a line and within one.
        proxy: (&'static str, &'static str),
        unknown_of_proxy: &'static str,
    },
    /// Each by its name. What it does not know is shown by its reason.
    Named,
}

/// Every release that differs, oldest first.
pub const RELEASES: [Release; 5] = [
    Release {
        name: "2.32.1",
        counts_old: false,
        heaviest_of_a_moment: false,
        containers: Containers::Two {
            unknown: "There was a problem with the notebook",
            marks: &["oauth-proxy"],
            proxy: ("Oauth proxy", "oauth proxy"),
            unknown_of_proxy: "There was a problem with Oauth",
        },
        queue: None,
    },
    Release {
        name: "3.0",
        counts_old: false,
        heaviest_of_a_moment: false,
        containers: Containers::Two {
            unknown: "There was a problem with the workbench",
            marks: &["oauth-proxy"],
            proxy: ("Oauth proxy", "oauth proxy"),
            unknown_of_proxy: "There was a problem with Oauth",
        },
        queue: None,
    },
    Release {
        name: "3.4",
        counts_old: true,
        heaviest_of_a_moment: false,
        containers: Containers::Two {
            unknown: "There was a problem with the workbench",
            marks: &["oauth-proxy", "kube-rbac-proxy"],
            proxy: ("Auth proxy", "auth proxy"),
            unknown_of_proxy: "There was a problem with auth proxy",
        },
        queue: Some(Words::First),
    },
    Release {
        name: "3.5",
        counts_old: true,
        heaviest_of_a_moment: false,
        containers: Containers::Named,
        queue: Some(Words::WithEvictions),
    },
    Release {
        name: "3.6",
        counts_old: true,
        heaviest_of_a_moment: true,
        containers: Containers::Named,
        queue: Some(Words::Shorter),
    },
];
