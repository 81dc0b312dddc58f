//! The reference of conditions and events, made of the lists that they are
//! taken from.

use std::fmt::Write;

use api::condition::reason;
use reconcile::answers::Kind;
use reconcile::steps::told;

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
         Events are of `events.k8s.io/v1`, reported by `{}`. Each is sent once, when something turned;\n\
         at rest there are none. `kubectl events --for gpp/NAME` shows those of a policy.\n\n\
         ## On a policy\n\n\
         When one of the conditions {} turns, its reason and its message are told. `Accepted` and\n\
         `Planned` that are not `True`, `{}` and `{}` are warnings. Conditions of policies and\n\
         of `GpuNode` have these reasons and no others:\n\n\
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
        "\nWhere a policy says what was reviewed ([the plan before the merge](../gitops.md)), `{}` tells once that\n\
         something else would be done: as a warning when the plan is another, and as no warning while the policies\n\
         are others than those that were reviewed.\n",
        news::REVIEW_MOVED,
    );
    page.push_str(
        "\n## On a node\n\n\
         The steps of a rollout, in their order. Steps that only follow are not told; `GpuNode` has the phase.\n\n\
         | type | reason | action | note |\n|---|---|---|---|\n",
    );
    for told::EventTemplate { reason, action, warning, note } in told::ALL {
        let _ = writeln!(page, "| {} | `{reason}` | `{action}` | {note} |", loud(warning));
    }
    page.push_str(
        "\n## On a workbench or a pod that asks\n\n\
         On the Notebook, and on the pod that waits.\n\n\
         | type | reason | meaning |\n|---|---|---|\n",
    );
    for kind in Kind::ALL {
        let (word, warning, meaning) = kind.told();
        let _ = writeln!(page, "| {} | `{word}` | {meaning} |", loud(warning));
    }
    page.push_str(
        "\n## On what OpenShift AI offers\n\n\
         Where there is a policy. Each is told once while it holds.\n\n\
         | type | reason | meaning |\n|---|---|---|\n",
    );
    for (word, meaning) in news::PROBLEMS {
        let _ = writeln!(page, "| {} | `{word}` | {meaning} |", loud(true));
    }
    page
}
