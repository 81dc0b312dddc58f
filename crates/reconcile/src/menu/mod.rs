//! The menu: the hardware profiles that the operator publishes for OpenShift AI, and what is due with each.
//!
//! A spec is written once, when its profile is created. OpenShift AI writes a profile into a running workbench
//! at each of the workbench's updates, so a spec that changed would restart workbenches. Another spec is
//! another profile. Everything that happens to a profile afterwards happens to two annotations, or it is
//! deleted once nothing names it.
//!
//! - Profiles of others are never changed, whatever their names are.
//! - A profile of ours that somebody edited is theirs from then on. A switch that somebody has moved by hand
//!   stays where it is.
//! - Nodes come and go, so a profile is withdrawn, offered again or replaced only after a while.

mod attainable;
mod card;
mod decide;
mod offers;

use std::collections::{BTreeMap, BTreeSet};

use api::foreign::hardware_profile::SPEC_DIGEST;
use jiff::{SignedDuration, Timestamp};
use observe::problem::Problem;
use serde_json::Value;

pub use card::{Card, Place, Seat, Share};
pub use decide::cards;
pub(crate) use decide::menu;

/// What the operator has to do with hardware profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MenuSettings {
    /// The local queues for which profiles are published.
    pub queues: Vec<String>,
    /// How long a profile has to differ from what it should be before it is
    /// withdrawn, offered again, replaced or deleted.
    pub hold: SignedDuration,
}

impl Default for MenuSettings {
    fn default() -> Self {
        Self { queues: Vec::new(), hold: SignedDuration::from_mins(10) }
    }
}

/// The menu of one round.
#[derive(Clone, Debug, Default)]
pub struct MenuRound {
    /// The namespace for the profiles; none where OpenShift AI is not installed.
    pub namespace: Option<String>,
    /// What is due now.
    pub writes: Vec<MenuWrite>,
    /// Where each profile stands, by name.
    pub stands: BTreeMap<String, Stand>,
    /// Since when each profile differs from what it should be: to be handed in
    /// again with the objects of the next round.
    pub differs_since: BTreeMap<String, Timestamp>,
    /// Profiles of ours that are there, and those that are missing since they were: to be handed in again likewise.
    pub was_there: BTreeSet<String>,
    /// What people should know.
    pub problems: Vec<Problem>,
    /// When something becomes due by time alone.
    pub wake_at: Option<Timestamp>,
}

/// A write to a hardware profile.
#[derive(Clone, Debug, PartialEq)]
pub struct MenuWrite {
    /// The name of the profile.
    pub name: String,
    /// What is done with it.
    pub act: MenuAct,
}

/// What is done with a hardware profile.
#[derive(Clone, Debug, PartialEq)]
pub enum MenuAct {
    /// It is created, if there is none of that name.
    Create(Value),
    /// It is disabled.
    Withdraw {
        /// The version of the profile that this was decided on.
        if_version: String,
    },
    /// It is enabled again.
    OfferAgain {
        /// The version of the profile that this was decided on.
        if_version: String,
    },
    /// It is deleted, since nothing names it.
    Delete {
        /// The version of the profile that this was decided on.
        if_version: String,
        /// Its identity.
        uid: String,
    },
}

/// Where a hardware profile of the menu stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stand {
    /// It is offered, as it should be.
    Offered,
    /// It should be offered, and is not there or disabled.
    Missing,
    /// It is offered and no longer should be.
    Outdated,
    /// It is disabled, and will be deleted once nothing names it.
    Withdrawn,
    /// It is disabled, and something still names it.
    InUse,
    /// Somebody has moved its switch by hand.
    SetByHand,
    /// Somebody has edited its spec.
    Edited,
    /// A profile of somebody else has its name.
    NameTaken,
}

impl Stand {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Offered,
        Self::Missing,
        Self::Outdated,
        Self::Withdrawn,
        Self::InUse,
        Self::SetByHand,
        Self::Edited,
        Self::NameTaken,
    ];

    /// Its name, for a metric.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Offered => "offered",
            Self::Missing => "missing",
            Self::Outdated => "outdated",
            Self::Withdrawn => "withdrawn",
            Self::InUse => "in-use",
            Self::SetByHand => "set-by-hand",
            Self::Edited => "edited",
            Self::NameTaken => "name-taken",
        }
    }
}
