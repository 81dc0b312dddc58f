//! A question about a fleet: a snapshot, policies, and the planner's answer.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use observe::ClusterView;
use observe::manifest::{self, Skipped};
use observe::problem::{Problem, Severity};
use observe::snapshot::{self, Snapshot};
use planner::check::check;
use planner::decide::{Decision, decide_while};
use planner::names::PolicyName;
use planner::policy::Mode;
use reconcile::planned_round::see;
use reconcile::{Input, Settings};

use crate::exit::Failure;
use crate::files::{self, Manifest};
use crate::manifests::{self, Ignored};

/// What was read, and what is wrong with it that does not keep it from being used.
#[derive(Debug)]
pub struct Question {
    /// The fleet.
    pub snapshot: Snapshot,
    /// The fleet, demand and policies in the planner's terms.
    pub seen: ClusterView,
    /// Warnings and notes.
    pub problems: Vec<Problem>,
    /// What stands beside the policies and is not read.
    pub skipped: Vec<Skipped>,
    /// Files beside the policies that are not read.
    pub ignored: Vec<Ignored>,
}

/// The policy of `examples/first`, for people who have none yet.
const FIRST_POLICY: &str = "\
apiVersion: slicewright.io/v1alpha1
kind: GpuPartitionPolicy
metadata:
  name: fleet
spec:
  mode: Preview
  nodeSelector:
    matchLabels:
      nvidia.com/gpu.present: \"true\"
  layout:
    type: DemandDriven";

/// Whether a folder of policies may be without any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empty {
    /// Then it is probably the wrong folder.
    Refused,
    /// It is compared with another one: the first policy is being added, or
    /// the last one removed.
    Allowed,
}

/// Reads a snapshot.
///
/// # Errors
/// All errors of the file, a line each.
pub fn fleet(path: &Path) -> Result<(Snapshot, Vec<Problem>), Failure> {
    let hint = "a fleet is a file that `slicewright snapshot` records from a cluster, or one like \
                examples/fleet/lab.yaml";
    let (file, text) = files::read_or_hint(path, hint)?;
    let mut problems = Vec::new();
    let snapshot = snapshot::read(&file, &text, &mut problems);
    refuse_errors(&problems)?;
    Ok((snapshot, problems))
}

/// What to name or to write, where people named policies that are not there.
fn missing_policies(path: &Path, failure: Failure) -> Failure {
    match failure {
        Failure::Data(message) if !path.exists() && !files::is_standard_input(path) => {
            Failure::Data(format!(
                "{message}; policies are in a file, or in a folder of manifests. A first one, which plans for all GPUs and \
             changes nothing:\n\n{FIRST_POLICY}"
            ))
        }
        other => other,
    }
}

/// Refuses policies that are not there, before a cluster is asked for anything.
///
/// # Errors
/// Names what is missing, and shows a first policy.
pub fn policies_exist(path: &Path) -> Result<(), Failure> {
    if path.exists() || files::is_standard_input(path) {
        return Ok(());
    }
    files::read(path).map(drop).map_err(|failure| missing_policies(path, failure))
}

impl Question {
    /// The mode of a policy, if there is one of this name.
    #[must_use]
    pub fn mode(&self, policy: &PolicyName) -> Option<Mode> {
        self.seen.policies.iter().find(|known| known.name == *policy).map(|known| known.mode)
    }

    /// The fleet of a snapshot under the policies of a file or folder; those
    /// of the snapshot itself when there is none. Other objects among the
    /// manifests (workbenches, profiles) are added to the fleet's.
    ///
    /// # Errors
    /// All errors of all files, a line each.
    pub fn read(
        snapshot: &Snapshot,
        mut problems: Vec<Problem>,
        policies: Option<&Path>,
        empty: Empty,
    ) -> Result<Self, Failure> {
        let mut snapshot = snapshot.clone();
        let (mut skipped, mut ignored) = (Vec::new(), Vec::new());
        if let Some(path) = policies {
            snapshot.objects.policies.clear();
            snapshot.objects.sources.clear();
            let found = manifests::read_manifests(path).map_err(|failure| missing_policies(path, failure))?;
            let name = files::name(path);
            if found.manifests.is_empty() && empty == Empty::Refused {
                return Err(Failure::Data(format!(
                    "{name} holds no manifest: there is no file *.yaml, *.yml or *.json in it"
                )));
            }
            problems.extend(found.manifests.iter().filter_map(nothing_in));
            skipped = manifest::read_all(&mut snapshot.objects, &found.manifests, &mut problems);
            ignored = found.ignored;
            refuse_errors(&problems)?;
            if snapshot.objects.policies.is_empty() && empty == Empty::Refused {
                let message = format!(
                    "{name} holds no policy: at least one object of kind GpuPartitionPolicy ({}/v1alpha1) is needed",
                    api::GROUP
                );
                return Err(Failure::Data(message));
            }
            // An empty folder says that there was none, or is none any more; one with other things is probably another one.
            if snapshot.objects.policies.is_empty() && !skipped.is_empty() {
                problems.push(Problem::new(
                    Severity::Warning,
                    name,
                    "holds manifests, and none of them is a policy",
                ));
            }
        }
        let input = Input {
            objects: &snapshot.objects,
            local: &BTreeMap::new(),
            map_changed: None,
            obstacles: &reconcile::Obstacles::NONE,
            settings: &Settings::of_a_reader(),
            now: snapshot.taken_at,
        };
        let seen = see(&input);
        problems.extend(seen.problems.iter().cloned());
        problems.sort();
        problems.dedup();
        refuse_errors(&problems)?;
        Ok(Self { snapshot, seen, problems, skipped, ignored })
    }

    /// The moment for which everything is decided.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.snapshot.taken_at
    }

    /// Plans, and has the plan checked.
    ///
    /// # Errors
    /// If the checker finds the plan unsafe, which is a bug of ours.
    pub fn decide(&self) -> Result<Decision, Failure> {
        let ClusterView { inventory, requests, policies, .. } = &self.seen;
        let mut decision = decide_while(inventory, requests, policies, &self.seen.under_way);
        reconcile::surge::explain(&self.snapshot.objects, &self.seen, &mut decision.report);
        let fatal: Vec<String> = check(&decision.plan, inventory, requests, policies)
            .iter()
            .filter(|note| note.severity == planner::check::Severity::Fatal)
            .map(ToString::to_string)
            .collect();
        if fatal.is_empty() {
            Ok(decision)
        } else {
            Err(Failure::Bug(format!("the plan is not safe; please report this: {}", fatal.join("; "))))
        }
    }
}

/// A warning about a file that contributes nothing.
fn nothing_in(manifest: &Manifest) -> Option<Problem> {
    let is_empty = api::located::documents(&manifest.text).is_empty();
    is_empty.then(|| {
        Problem::new(Severity::Warning, &manifest.file, "holds no object: it is empty, or has only comments")
    })
}

/// Stops at errors, a line each.
pub(crate) fn refuse_errors(problems: &[Problem]) -> Result<(), Failure> {
    let errors: Vec<String> =
        problems.iter().filter(|p| p.severity == Severity::Error).map(ToString::to_string).collect();
    if errors.is_empty() { Ok(()) } else { Err(Failure::Data(errors.join("\nerror: "))) }
}
