//! The labels and annotations by which objects control the simulator, and how their values are read.
//! Everything else in the API is as on a real cluster.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use operands::Opens;

/// The label on every node that this simulator keeps.
pub const NODE: &str = "sim.slicewright.io/node";
/// On a node: what goes wrong, in the words of [`operands::faults`]; taken away,
/// nothing does.
pub const FAULT: &str = "sim.slicewright.io/fault";
/// On a node: each new value reboots it.
pub const REBOOT: &str = "sim.slicewright.io/reboot";
/// On a pod: when it opens its devices: `never` (the default: an idle
/// notebook), `at-once`, or a duration after it runs (`90s`).
pub const OPENS: &str = "sim.slicewright.io/opens";
/// On a pod: how long it takes from binding to running.
pub const STARTS_AFTER: &str = "sim.slicewright.io/starts-after";
/// On a pod: how long its containers take to stop.
pub const STOPS_AFTER: &str = "sim.slicewright.io/stops-after";
/// On a pod: how long after it runs it ends with success.
pub const SUCCEEDS_AFTER: &str = "sim.slicewright.io/succeeds-after";
/// On a pod: how long after it runs it ends with failure.
pub const FAILS_AFTER: &str = "sim.slicewright.io/fails-after";

/// What a pod's annotations say about its life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LifeAnnotations {
    pub(crate) opens: Opens,
    pub(crate) starts_after: Option<SignedDuration>,
    pub(crate) stops_after: Option<SignedDuration>,
    pub(crate) succeeds_after: Option<SignedDuration>,
    pub(crate) fails_after: Option<SignedDuration>,
    /// What could not be read, as sentences.
    pub(crate) unread: Vec<String>,
}

/// Reads a pod's annotations. What cannot be read counts as not said, and is
/// told.
pub(crate) fn said(pod: &Pod) -> LifeAnnotations {
    let mut said = LifeAnnotations::default();
    let value = |key: &str| pod.metadata.annotations.as_ref().and_then(|a| a.get(key)).map(String::as_str);
    let mut duration = |key: &str| match value(key)?.parse::<SignedDuration>() {
        Ok(duration) if !duration.is_negative() => Some(duration),
        _ => {
            let text = value(key).unwrap_or_default();
            said.unread.push(format!("{key} is `{text}`; it is a duration such as `90s` or `5m`"));
            None
        }
    };
    let starts_after = duration(STARTS_AFTER);
    let stops_after = duration(STOPS_AFTER);
    let succeeds_after = duration(SUCCEEDS_AFTER);
    let fails_after = duration(FAILS_AFTER);
    let opens = match value(OPENS) {
        None | Some("never") => Opens::Never,
        Some("at-once") => Opens::AtOnce,
        Some(text) => match text.parse::<SignedDuration>() {
            Ok(after) if !after.is_negative() => Opens::After(after),
            _ => {
                said.unread.push(format!(
                    "{OPENS} is `{text}`; it is `never`, `at-once` or a duration such as `90s`"
                ));
                Opens::Never
            }
        },
    };
    LifeAnnotations { opens, starts_after, stops_after, succeeds_after, fails_after, unread: said.unread }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(annotations: serde_json::Value, expect: &LifeAnnotations) {
        let pod = serde_json::from_value(json!({"metadata": {"annotations": annotations}})).expect("a pod");
        assert_eq!(&said(&pod), expect);
    }

    #[test]
    fn a_pod_says_when_it_starts_opens_and_ends() {
        check(json!({}), &LifeAnnotations::default());
        check(
            json!({OPENS: "at-once"}),
            &LifeAnnotations { opens: Opens::AtOnce, ..LifeAnnotations::default() },
        );
        check(
            json!({OPENS: "90s", STARTS_AFTER: "5m", SUCCEEDS_AFTER: "1h"}),
            &LifeAnnotations {
                opens: Opens::After(SignedDuration::from_secs(90)),
                starts_after: Some(SignedDuration::from_mins(5)),
                succeeds_after: Some(SignedDuration::from_hours(1)),
                ..LifeAnnotations::default()
            },
        );
    }

    #[test]
    fn what_cannot_be_read_is_told_and_counts_as_not_said() {
        let unread = vec![
            format!("{STARTS_AFTER} is `soon`; it is a duration such as `90s` or `5m`"),
            format!("{OPENS} is `later`; it is `never`, `at-once` or a duration such as `90s`"),
        ];
        check(
            json!({STARTS_AFTER: "soon", OPENS: "later"}),
            &LifeAnnotations { unread, ..LifeAnnotations::default() },
        );
    }
}
