//! Twenty recorded fleets whose nodes are short of CPU and memory, where they are beside this checkout. Of each
//! it is known how many compute slices no plan can serve: an integer program that shares nothing with the
//! planner has proved it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use observe::ClusterView;
use observe::problem::Severity;
use observe::snapshot::{self, Snapshot};
use planner::check::{check_certificate, check_promises};
use reconcile::{Input, Obstacles, Settings};

/// The folder of the recordings, where there is one.
fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases/rooms");
    folder.is_dir().then_some(folder)
}

/// The least compute slices that stay unserved, by file: the fifth and first column of the table.
fn proved(folder: &Path) -> BTreeMap<String, i64> {
    let table = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| rooms-"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        (cells[1].to_owned(), cells[6].parse().unwrap())
    })
    .collect()
}

const POLICY: &str = "\
apiVersion: slicewright.io/v1alpha1
kind: GpuPartitionPolicy
metadata: {name: research}
spec:
  nodeSelector: {matchLabels: {slicewright.io/pool: research}}
  layout: {type: DemandDriven}
";

/// A recording, under a policy without bounds.
fn read(path: &Path) -> Snapshot {
    let mut problems = Vec::new();
    let text = std::fs::read_to_string(path).unwrap();
    let mut snapshot = snapshot::read(&path.display().to_string(), &text, &mut problems);
    let _ = observe::manifest::read_all(&mut snapshot.objects, [("policy.yaml", POLICY)], &mut problems);
    let errors: Vec<_> = problems.iter().filter(|problem| problem.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{errors:?}");
    snapshot
}

#[test]
fn on_each_of_the_recorded_fleets_as_much_is_served_as_is_proved_to_be_possible() {
    let Some(folder) = folder() else {
        println!("left out: there are no recorded fleets beside this checkout");
        return;
    };
    let proved = proved(&folder);
    assert_eq!(proved.len(), 20, "{proved:?}");
    let mut others = Vec::new();
    for (file, least) in &proved {
        let snapshot = read(&folder.join(file));
        let planned = reconcile::plan_round(&Input {
            objects: &snapshot.objects,
            local: &BTreeMap::new(),
            map_changed: None,
            obstacles: &Obstacles::NONE,
            settings: &Settings::default(),
            now: snapshot.taken_at,
        });
        let fatal: Vec<String> = planned.plan.fatal().map(ToString::to_string).collect();
        assert_eq!(fatal, Vec::<String>::new(), "{file}");
        // Everybody who is told to be served is counted, at once or by a step: nobody's CPU is given away twice.
        let ClusterView { inventory, requests, policies, .. } = &planned.view;
        let reports = &planned.report.requests;
        assert_eq!(check_promises(&planned.plan, reports, inventory, requests, policies), vec![], "{file}");
        let certificate = &planned.report.certificate;
        assert_eq!(check_certificate(&planned.plan, inventory, certificate), vec![], "{file}");
        let unserved: Vec<_> = certificate.iter().filter(|l| l.level.starts_with("unserved")).collect();
        let (value, bound) =
            unserved.iter().fold((0, 0), |(value, bound), level| (value + level.value, bound + level.bound));
        assert!(bound <= *least, "{file}: the bound {bound} says more than is true: {least}");
        if value != *least {
            others.push(format!("{file}: {value} are not served, and {least} need not be"));
        }
    }
    assert_eq!(others, Vec::<String>::new());
}
