//! The reference of conditions and events, generated from the lists in the code.

use std::fmt::Write;

use api::condition::reason;
use reconcile::answers::Kind;
use reconcile::steps::event_templates;

use super::news;

/// Whether `kubectl` shows it as `Warning`.
const fn loud(warning: bool) -> &'static str {
    if warning { "Warning" } else { "Normal" }
}

/// The page `docs/reference/events.md`.
#[must_use]
pub fn page() -> String {
    let mut page = format!(
        "# Conditions and events\n\n\
         Events are of `events.k8s.io/v1`, reported by `{}`. Each is sent once, when the\n\
         situation changes. `kubectl events --for gpp/NAME` shows the events of a policy.\n\n\
         ## On a policy\n\n\
         When one of the conditions {} changes, an event repeats its reason and its message. The event is a\n\
         warning if `Accepted` or `Planned` is not `True`, and for `{}` and `{}`. Conditions of policies and\n\
         of `GpuNode` have only these reasons:\n\n\
         | reason | meaning |\n|---|---|\n",
        super::events::REPORTER,
        news::TOLD.map(|kind| format!("`{kind}`")).join(", "),
        reason::ROLLOUT_FAILED,
        reason::FOREIGN_LAYOUT,
    );
    for (word, meaning) in reason::ALL {
        let _ = writeln!(page, "| `{word}` |{meaning} |");
    }
    let _ = write!(
        page,
        "\nIf a policy names its reviewed plan ([the plan before the merge](../gitops.md)), the event `{}` says once that\n\
         the present plan differs. It is a warning when only the plan differs, and not a warning while the policies\n\
         differ from the reviewed ones too.\n",
        news::REVIEW_MOVED,
    );
    page.push_str(
        "\n## On a node\n\n\
         The steps of a rollout, in order. Steps that only follow from others have no event; `GpuNode` shows the phase.\n\n\
         | type | reason | action | note |\n|---|---|---|---|\n",
    );
    for event_templates::EventTemplate { reason, action, warning, note } in event_templates::ALL {
        let _ = writeln!(page, "| {} | `{reason}` | `{action}` | {note} |", loud(warning));
    }
    page.push_str(
        "\n## On a workbench or a pod that requests slices\n\n\
         Each of these events is on one object: on the pod that waits; while a workbench has no pod, on its\n\
         StatefulSet if that says why, and on the Notebook otherwise. For anything else that waits in a queue without\n\
         a pod, the event is on the root owner (such as an InferenceService or a JobSet). The dashboard of OpenShift\n\
         AI shows the events of the pod, and without a pod those of the StatefulSet; the notebook controller repeats\n\
         both on the Notebook. A workbench that requests no slice, since OpenShift AI applies its hardware profile to\n\
         none of its containers, gets `SliceUnavailable` too, also on a pod that runs.\n\n\
         | type | reason | meaning |\n|---|---|---|\n",
    );
    for kind in Kind::ALL {
        let (word, meaning) = kind.told();
        let _ = writeln!(page, "| {} | `{word}` | {meaning} |", loud(false));
    }
    page.push_str(
        "\n## On what OpenShift AI offers\n\n\
         These events exist if there is a policy. Each is sent once while the problem lasts.\n\n\
         | type | reason | meaning |\n|---|---|---|\n",
    );
    for (word, meaning) in news::PROBLEMS {
        let _ = writeln!(page, "| {} | `{word}` | {meaning} |", loud(true));
    }
    page
}
