//! What an action writes into its node: labels and the cordon, in one merge patch. Whoever carries actions out asks
//! here, so that a real node and a simulated one get the same.

use crate::action::Action;
use crate::names;

/// A merge patch of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePatch<'a> {
    /// Labels to set, or to remove where there is no value.
    pub labels: Vec<(String, Option<String>)>,
    /// `true` cordons, `false` uncordons, `None` leaves `spec.unschedulable` as it is.
    pub cordon: Option<bool>,
    /// The node's resource version on which this was decided. At another one the write must fail.
    pub if_version: &'a str,
}

impl Action {
    /// What it writes into its node; `None` for what touches pods or the map, or only reads.
    #[must_use]
    pub fn node_patch(&self) -> Option<NodePatch<'_>> {
        let label = |name: &str, value: Option<&str>| (name.to_owned(), value.map(str::to_owned));
        let ours = || label(names::CORDONED_BY, Some(names::CORDONED_BY_US));
        let not_ours = || label(names::CORDONED_BY, None);
        let (labels, cordon, if_version) = match self {
            Self::EnsureMapEntry { .. }
            | Self::EnsurePluginConfig { .. }
            | Self::ListPods
            | Self::Evict { .. }
            | Self::DeletePod { .. } => return None,
            Self::SetPluginConfigLabel { value, if_version } => {
                (vec![label(names::PLUGIN_CONFIG, value.as_deref())], None, if_version)
            }
            Self::Cordon { if_version } => (vec![ours()], Some(true), if_version),
            Self::Uncordon { if_version } => (vec![not_ours()], Some(false), if_version),
            Self::RemoveCordonedBy { if_version } => (vec![not_ours()], None, if_version),
            Self::SetConfigLabel { value, clear_state, if_version } => {
                let mut labels = vec![label(names::MIG_CONFIG, Some(value))];
                labels.extend(clear_state.then(|| label(names::MIG_CONFIG_STATE, None)));
                (labels, None, if_version)
            }
            Self::HoldForAgent { labels, if_version } => {
                let paused = labels.iter().map(|name| label(name, Some(names::PAUSED_FOR_US)));
                (paused.chain([ours()]).collect(), Some(true), if_version)
            }
            Self::StandDownManager { if_version } => {
                (vec![label(names::DEPLOY_MIG_MANAGER, Some("false"))], None, if_version)
            }
            Self::HandBack { value, with_manager, if_version } => {
                let mut labels =
                    vec![label(names::MIG_CONFIG, Some(value)), label(names::MIG_CONFIG_STATE, None)];
                labels.extend(with_manager.then(|| label(names::DEPLOY_MIG_MANAGER, Some("true"))));
                (labels, None, if_version)
            }
            Self::ResumeOperands { labels, if_version } | Self::UnpauseOperands { labels, if_version } => {
                (labels.iter().map(|name| label(name, Some("true"))).collect(), None, if_version)
            }
        };
        Some(NodePatch { labels, cordon, if_version })
    }
}
