//! What one event says, as a line.

use super::release::Containers;
use super::{Line, Release, ShownEvent, Weight};

/// Containers of the proxy that asks people who they are.
const PROXIES: [&str; 3] = ["oauth-proxy", "ose-oauth-proxy", "kube-rbac-proxy"];

/// What an event says. In the first seconds (`grace`) two kinds of trouble are
/// not called by their names.
pub(super) fn line(release: &Release, containers: &[&str], told: &ShownEvent, grace: bool) -> Line {
    use Weight::{Error, Information, Warning};
    match &release.containers {
        Containers::Two { marks, proxy, unknown_of_proxy, .. }
            if marks.iter().any(|mark| told.message.contains(mark)) =>
        {
            return of_proxy(told, *proxy, unknown_of_proxy);
        }
        Containers::Two { .. } => {
            if let Some(line) = of_container(told, "Workbench", "workbench", false) {
                return line;
            }
        }
        Containers::Named => {
            let line = whose(containers, told).and_then(|name| of_container(told, name, name, true));
            if let Some(line) = line {
                return line;
            }
        }
    }
    let known = match told.reason.as_str() {
        "SuccessfulCreate" => Some(("Pod created", Information)),
        "Scheduled" => Some(("Pod assigned", Information)),
        "SuccessfulAttachVolume" => Some(("PVC attached", Information)),
        "AddedInterface" => Some(("Interface added", Information)),
        "TriggeredScaleUp" => Some(("Pod triggered scale-up", Information)),
        "NotTriggerScaleUp" => Some(("Failed to scale-up", Error)),
        "FailedCreate" => Some(("Failed to create pod", Error)),
        "FailedScheduling" if !grace => Some(("Insufficient resources to start", Error)),
        "BackOff" if !grace => Some((back_off(release, told), Error)),
        _ if is_of_a_container(told) && matches!(release.containers, Containers::Named) => None,
        _ if told.warning => Some(("Issue creating workbench container", Warning)),
        _ => None,
    };
    match (known, &release.containers) {
        (Some((text, weight)), _) => Line::new(text, weight),
        (None, Containers::Two { unknown, .. }) => Line::new(*unknown, Warning),
        (None, Containers::Named) => {
            Line::new(told.reason.clone(), if told.warning { Warning } else { Information })
        }
    }
}

fn back_off(release: &Release, told: &ShownEvent) -> &'static str {
    let pulls = told.message.to_lowercase().contains("pulling image");
    let named = matches!(release.containers, Containers::Named);
    if named && !pulls { "CrashLoopBackOff" } else { "ImagePullBackOff" }
}

fn is_of_a_container(told: &ShownEvent) -> bool {
    ["Pulling", "Pulled", "Created", "Started", "Killing"].contains(&told.reason.as_str())
}

/// Whose container an event of kubelet is about, by the longest name in it.
fn whose<'a>(containers: &[&'a str], told: &ShownEvent) -> Option<&'a str> {
    let named = containers.iter().copied().filter(|name| told.message.contains(name));
    let found = named.rev().max_by_key(|name| name.len())?;
    let main =
        containers.iter().copied().find(|name| !PROXIES.contains(name)).or(containers.first().copied());
    Some(match found {
        _ if Some(found) == main => "Workbench",
        _ if PROXIES.contains(&found) => "Auth proxy",
        other => other,
    })
}

/// What kubelet says of a container; its end only where containers have names.
fn of_container(told: &ShownEvent, start: &str, within: &str, ends: bool) -> Option<Line> {
    let text = match told.reason.as_str() {
        "Pulling" => format!("Pulling {within} image"),
        "Pulled" => format!("{start} image pulled"),
        "Created" => format!("{start} container created"),
        "Started" => format!("{start} container started"),
        "Killing" if ends => return Some(Line::new(format!("{start} container stopped"), Weight::Warning)),
        _ => return None,
    };
    Some(Line::new(text, Weight::Information))
}

/// What is said of the second container, where there are two.
fn of_proxy(told: &ShownEvent, (start, within): (&str, &str), unknown: &str) -> Line {
    let (text, weight) = match told.reason.as_str() {
        "Pulling" => (format!("Pulling {within}"), Weight::Information),
        "Pulled" => (format!("{start} pulled"), Weight::Information),
        "Created" => (format!("{start} container created"), Weight::Information),
        "Started" => (format!("{start} container started"), Weight::Information),
        // Its step is not undone: it is shown again, as a warning.
        "Killing" => (format!("{start} container started"), Weight::Warning),
        _ if told.warning => (format!("{start} container created"), Weight::Warning),
        _ => (unknown.to_owned(), Weight::Warning),
    };
    Line::new(text, weight)
}
