//! The texts for the steps of a rollout: a short one for transcripts and logs, and the event for users,
//! side by side, so that both agree.

use planner::names::NodeName;
use rollout::{Phase, Progress, Rung};

/// A step in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What the node does from now on, as a sentence without its subject.
    pub text: String,
    /// What people are told of it; nothing of steps that only follow.
    pub event: Option<StepEvent>,
}

/// What people are told of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepEvent {
    /// One word.
    pub reason: &'static str,
    /// What was done, in one word.
    pub action: &'static str,
    /// Whether somebody should look.
    pub warning: bool,
    /// A sentence.
    pub note: String,
}

/// The events that steps are told as, in the order of a rollout.
pub mod event_templates {
    /// An event: its word, what was done, and what it says.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct EventTemplate {
        /// One word.
        pub reason: &'static str,
        /// What was done, in one word.
        pub action: &'static str,
        /// Whether somebody should look.
        pub warning: bool,
        /// The sentence, where the step has nothing to add.
        pub note: &'static str,
    }

    const fn template(
        reason: &'static str,
        action: &'static str,
        warning: bool,
        note: &'static str,
    ) -> EventTemplate {
        EventTemplate { reason, action, warning, note }
    }

    /// A change begins.
    pub const STARTED: EventTemplate = template(
        "RepartitionStarted",
        "Cordon",
        false,
        "the node is cordoned while its GPUs are repartitioned",
    );
    /// The point of no return.
    pub const REQUESTED: EventTemplate = template(
        "LayoutRequested",
        "Label",
        false,
        "no pod can lose a slice, so MIG manager is instructed to apply the new layout",
    );
    /// A wedge of MIG manager is healed.
    pub const RESTARTED: EventTemplate =
        template("ManagerRestarted", "DeletePod", true, "MIG manager is stuck, so its pod is replaced");
    /// Another try.
    pub const RETRIED: EventTemplate = template(
        "RepartitionRetried",
        "Label",
        true,
        "the layout was not reached, so it is retried under another name, or the previous layout is restored",
    );
    /// The end of a change.
    pub const VERIFIED: EventTemplate = template(
        "RepartitionVerified",
        "Uncordon",
        false,
        "pods can use the slices, so the node is uncordoned",
    );
    /// The end of a change that was not made.
    pub const TAKEN_BACK: EventTemplate =
        template("RepartitionTakenBack", "Uncordon", false, "nothing was changed, so the node is uncordoned");
    /// The end of a change that could not be made.
    pub const ROLLED_BACK: EventTemplate =
        template("RepartitionRolledBack", "Uncordon", true, "the previous layout is restored");
    /// Somebody has to look.
    pub const FAILED: EventTemplate =
        template("RepartitionFailed", "Stop", true, "an administrator has to look at the node");
    /// Somebody took over.
    pub const RELEASED: EventTemplate = template(
        "Released",
        "Release",
        false,
        "an administrator ended its rollout; it is not changed until `slicewright release --resume`",
    );

    /// A change of sharing begins.
    pub const SHARING_STARTED: EventTemplate = template(
        "SharingStarted",
        "Cordon",
        false,
        "the node is cordoned while it changes how its GPUs are shared",
    );
    /// The device plugin is told.
    pub const SHARING_REQUESTED: EventTemplate = template(
        "SharingRequested",
        "Label",
        false,
        "no pod will share a GPU without having asked for it, so the device plugin gets its new configuration",
    );
    /// It did not work.
    pub const SHARING_RETRIED: EventTemplate = template(
        "SharingRolledBack",
        "Label",
        true,
        "the device plugin did not offer the GPUs as the policy shares them, so it gets its previous configuration",
    );
    /// The end of a change of sharing.
    pub const SHARING_VERIFIED: EventTemplate = template(
        "SharingVerified",
        "Uncordon",
        false,
        "the node offers its GPUs as its configuration says, so it is uncordoned",
    );

    /// All of them.
    pub const ALL: [EventTemplate; 13] = [
        STARTED,
        REQUESTED,
        RESTARTED,
        RETRIED,
        VERIFIED,
        TAKEN_BACK,
        ROLLED_BACK,
        FAILED,
        RELEASED,
        SHARING_STARTED,
        SHARING_REQUESTED,
        SHARING_RETRIED,
        SHARING_VERIFIED,
    ];
}

/// The step that a node took; nothing when it goes on with what it did.
#[must_use]
pub fn step_taken(node: &NodeName, before: &Progress, next: &Progress) -> Option<Step> {
    if before.phase == next.phase {
        return None;
    }
    let trouble = next.last_error.as_ref().filter(|_| before.last_error != next.last_error);
    let rolled_back = next.set_back.as_ref().is_some_and(|back| back.rolled_back);
    let goes_back = matches!(next.target.as_ref().map(|target| target.rung), Some(Rung::RollBack));
    let by_agent = next.target.as_ref().is_some_and(|target| target.slices.is_some());
    let of = if next.target.is_some() { next } else { before };
    let shares = of.target.as_ref().is_some_and(|target| target.sharing.is_some());
    let quiet = |text: &str| (text.to_owned(), None);
    let loud = |text: &str, told: event_templates::EventTemplate| {
        let event_templates::EventTemplate { reason, action, warning, note } = told;
        (text.to_owned(), Some(StepEvent { reason, action, warning, note: note.to_owned() }))
    };
    let (text, event) = match next.phase {
        Phase::Idle => {
            let text = match trouble {
                Some(why) => format!("gives up: {why}"),
                None => "is done".to_owned(),
            };
            match before.phase == Phase::Releasing && rolled_back {
                true => loud(&text, event_templates::ROLLED_BACK),
                false => quiet(&text),
            }
        }
        Phase::Cordoning if by_agent => {
            let note = "the node is cordoned and its device plugin is paused while its agent changes single slices; pods that run are not affected";
            loud(
                "is cordoned, and its device plugin is paused",
                event_templates::EventTemplate { note, ..event_templates::STARTED },
            )
        }
        Phase::Quiescing if by_agent => quiet("waits until it is proved that no pod loses a slice"),
        Phase::Changing if by_agent => {
            let note = "no pod can lose a slice, so the agent changes the slices";
            loud(
                "the agent has taken over",
                event_templates::EventTemplate { note, ..event_templates::REQUESTED },
            )
        }
        Phase::Verifying if by_agent => quiet("the agent has ended; the device plugin is resumed"),
        Phase::Mapping if shares => quiet("its device plugin's configuration is added to the map"),
        Phase::Quiescing if shares => {
            quiet("waits until no pod would share a GPU without having asked for it")
        }
        Phase::Changing if shares => {
            let note = "no pod will share a GPU without having asked for it, so the device plugin gets its new configuration";
            loud(
                "the label is written; the device plugin takes over",
                event_templates::EventTemplate { note, ..event_templates::SHARING_REQUESTED },
            )
        }
        Phase::Verifying if shares => {
            quiet("the operator verifies that the GPUs are offered as the policy shares them")
        }
        Phase::Relabelling if shares => {
            loud("goes back to the configuration before", event_templates::SHARING_RETRIED)
        }
        Phase::Cordoning if shares => loud("is cordoned", event_templates::SHARING_STARTED),
        Phase::Releasing if shares => loud(
            "the GPUs are offered as they are to be shared; it is uncordoned",
            event_templates::SHARING_VERIFIED,
        ),
        Phase::Mapping => quiet("its layout is added to the map"),
        Phase::Cordoning => loud("is cordoned", event_templates::STARTED),
        Phase::Quiescing => quiet("waits until no pod can lose a slice"),
        Phase::Changing => loud("the label is written; MIG manager takes over", event_templates::REQUESTED),
        Phase::Verifying => quiet("MIG manager reports success; its slices are verified"),
        Phase::Healing => loud("MIG manager's pod is replaced", event_templates::RESTARTED),
        Phase::Relabelling => loud(
            match goes_back {
                true => "goes back to the last verified layout",
                false => "the same layout is tried under another name",
            },
            event_templates::RETRIED,
        ),
        Phase::Releasing => loud("the slices are schedulable; it is uncordoned", event_templates::VERIFIED),
        Phase::Retreating => {
            loud("nothing was changed, so the node is uncordoned", event_templates::TAKEN_BACK)
        }
        Phase::Failed => match &next.failed {
            None => loud("FAILED", event_templates::FAILED),
            Some(why) => {
                let text =
                    format!("FAILED: {why}; it stays cordoned, and an administrator has to look at the node");
                let (text, event) = loud(&text, event_templates::FAILED);
                let note = format!("{why}; {}", why.help(&node.0));
                (text, event.map(|event| StepEvent { note, ..event }))
            }
        },
        Phase::Released => loud("was released by an administrator", event_templates::RELEASED),
    };
    let with = |text: String| match trouble {
        Some(why) if !matches!(next.phase, Phase::Idle | Phase::Failed) => format!("{why}; {text}"),
        _ => text,
    };
    let event = event.map(|event| {
        // What failed says so itself.
        let why = trouble.filter(|_| next.failed.is_none());
        let note = match why {
            Some(why) => format!("{why}; {}", event.note),
            None => event.note,
        };
        StepEvent { note, ..event }
    });
    Some(Step { text: with(text), event })
}
