//! What a person reads in OpenShift AI's dashboard from the click on "Create"
//! until the workbench runs, without a queue and in one: the lines in their
//! order, per release.

use api::foreign::workload::WorkloadStatus;
use jiff::{SignedDuration, Timestamp};
use reconcile::answers::Kind;
use workbenches::dashboard::{InQueue, RELEASES, ShownEvent, Workbench, event_log, status_line};

use super::*;

/// How often a person looks.
const LOOKS: SignedDuration = SignedDuration::from_secs(5);

/// A fleet of which one GPU has to be cut anew.
const FLEET: &str = "\
node n1 1xA100-80GB layout all-1g.10gb labels pool=research
policy:
  apiVersion: slicewright.io/v1alpha1
  kind: GpuPartitionPolicy
  metadata: {name: research}
  spec:
    nodeSelector: {matchLabels: {pool: research}}
    layout: {type: DemandDriven, demandDriven: {}}
run until quiet
";

/// Somebody who starts `team-a/lab`, and looks at the dashboard.
struct Person {
    clicked: Timestamp,
    told: Vec<ShownEvent>,
    /// What the operator said last: kind and topic.
    answer: Option<(Kind, &'static str)>,
    /// The lines that were read, per release.
    read: Vec<Vec<String>>,
}

impl Person {
    fn clicks(now: Timestamp) -> Self {
        Self { clicked: now, told: Vec::new(), answer: None, read: vec![Vec::new(); RELEASES.len()] }
    }

    /// An event comes; of what comes in one moment each comes after the other,
    /// and each has a fraction of a second, as the API server writes it.
    fn hears(&mut self, now: Timestamp, warning: bool, reason: &str, message: &str) {
        let nth = 1 + i64::try_from(self.told.len()).unwrap_or_default();
        let at = now + SignedDuration::from_micros(nth);
        self.told.push(ShownEvent { warning, reason: reason.to_owned(), message: message.to_owned(), at });
    }

    /// The events that the pod has by now; each is told once, as a series is.
    fn listens(&mut self, teller: &Teller<'_>) {
        let world = &teller.world;
        let Some(pod) = world.pods.get("team-a/lab-0") else { return };
        let known = |told: &[ShownEvent], reason: &str| told.iter().any(|t| t.reason == reason);
        let mut conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
        let refused = conditions.rfind(|c| c.type_ == "PodScheduled" && c.status == "False");
        if let Some(refused) = refused.filter(|_| !known(&self.told, "FailedScheduling")) {
            let message = refused.message.clone().unwrap_or_default();
            self.hears(world.now, true, "FailedScheduling", &message);
        }
        let objects = crate::objects::objects(world);
        let round = reconcile::round(&teller.operator.input(world, &objects));
        let answer = round.answers.iter().find(|answer| answer.id.name == "lab");
        if let Some(answer) = answer.filter(|a| self.answer != Some((a.kind, a.topic))) {
            // Who finds a free slice at once needs no word from us.
            if self.answer.is_some() || answer.kind != Kind::Free {
                let (reason, _) = answer.kind.told();
                self.hears(world.now, false, reason, &answer.text);
            }
            self.answer = Some((answer.kind, answer.topic));
        }
        if pod.spec.as_ref().is_some_and(|s| s.node_name.is_some()) && !known(&self.told, "Scheduled") {
            self.hears(world.now, false, "Scheduled", "Successfully assigned team-a/lab-0 to n1");
            self.hears(world.now, false, "Pulled", "Container image of lab already present on machine");
        }
    }

    /// Looks at the line in every release.
    fn looks(&mut self, now: Timestamp, queue: Option<&InQueue<'_>>) {
        let workbench = Workbench {
            told: &self.told,
            containers: &["lab"],
            queue: queue.cloned(),
            last_activity: self.clicked,
            starting: true,
        };
        for (release, read) in RELEASES.iter().zip(&mut self.read) {
            let line = status_line(release, &workbench, now).map(|line| line.text);
            if let Some(line) = line.filter(|line| read.last() != Some(line)) {
                read.push(line);
            }
        }
    }

    /// What was read, line after line, in a release.
    fn read_in(&self, release: &str) -> Vec<&str> {
        let nth = RELEASES.iter().position(|r| r.name == release).expect("a release");
        self.read[nth].iter().map(String::as_str).collect()
    }

    /// What the event log says of this reason, in every release.
    fn log_says(&self, reason: &str) -> bool {
        let workbench = Workbench {
            told: &self.told,
            containers: &["lab"],
            queue: None,
            last_activity: self.clicked,
            starting: true,
        };
        let word = format!("[{reason}]");
        RELEASES.iter().all(|release| event_log(release, &workbench).iter().any(|line| line.contains(&word)))
    }
}

fn runs(world: &World) -> bool {
    let phase = world.pods.get("team-a/lab-0").and_then(|pod| pod.status.as_ref()?.phase.as_deref());
    phase == Some("Running")
}

/// Tells a story, then has a person click and read until the workbench runs
/// or this much time has passed.
fn reads(story: &str, for_long: SignedDuration) -> (Person, bool) {
    let files = |_: &str| Err("there are no files".to_owned());
    let mut silent = |_: &Entry| {};
    let mut teller = Teller {
        world: World::starting(BEGIN.parse().expect("it is a time")),
        operator: Operator::default(),
        counters: Counters::default(),
        files: &files,
        tell: &mut silent,
        said: Vec::new(),
        missed: 0,
        acted: false,
    };
    for step in &crate::parse(story).expect("it is a story").steps {
        teller.step(step).expect("it happens");
    }
    let mut person = Person::clicks(teller.world.now);
    for step in &crate::parse("workbench team-a/lab 3g.40gb\n").expect("it is a story").steps {
        teller.step(step).expect("it happens");
    }
    while !runs(&teller.world) && teller.world.now < person.clicked + for_long {
        person.listens(&teller);
        person.looks(teller.world.now, None);
        teller.advance(teller.world.now + LOOKS);
    }
    person.listens(&teller);
    person.looks(teller.world.now, None);
    let runs = runs(&teller.world);
    (person, runs)
}

#[test]
fn from_click_to_running_while_a_gpu_is_cut() {
    let (person, runs) = reads(FLEET, SignedDuration::from_mins(30));
    assert!(runs);
    // Ours comes after the scheduler's and stays the newest, since a series
    // has the time at which it began. The red line is never read.
    let old = |problem| vec![problem, "Workbench image pulled"];
    assert_eq!(person.read_in("2.32.1"), old("There was a problem with the notebook"));
    assert_eq!(person.read_in("3.0"), old("There was a problem with the workbench"));
    assert_eq!(person.read_in("3.4"), old("There was a problem with the workbench"));
    assert_eq!(person.read_in("3.5"), ["SliceComing", "Workbench image pulled"]);
    assert_eq!(person.read_in("3.6"), ["SliceComing", "Workbench image pulled"]);
    assert!(person.log_says("SliceComing"), "the sentence itself is in the log");
}

#[test]
fn who_cannot_be_served_reads_of_no_container_and_finds_the_sentence_in_the_log() {
    let full = format!("{FLEET}pod team-b/all 7g.80gb\nrun until quiet\n");
    let (person, runs) = reads(&full, SignedDuration::from_mins(30));
    assert!(!runs);
    assert_eq!(person.read_in("2.32.1"), ["There was a problem with the notebook"]);
    assert_eq!(person.read_in("3.0"), ["There was a problem with the workbench"]);
    assert_eq!(person.read_in("3.4"), ["There was a problem with the workbench"]);
    assert_eq!(person.read_in("3.5"), ["SliceUnavailable"]);
    assert_eq!(person.read_in("3.6"), ["SliceUnavailable"]);
    assert!(person.log_says("SliceUnavailable"));
}

#[test]
fn where_a_workbench_finds_its_slice_at_once_nothing_is_said_of_slices() {
    let fits = FLEET.replace("all-1g.10gb", "all-3g.40gb");
    let (person, runs) = reads(&fits, SignedDuration::from_mins(30));
    assert!(runs);
    for release in &RELEASES {
        assert_eq!(person.read_in(release.name), ["Workbench image pulled"], "{}", release.name);
    }
}

/// A Workload's status as Kueue writes it, one after the other, from the click
/// to the end of a wait for our check.
const ADMISSION: [&str; 3] = [
    r#"[{"type": "QuotaReserved", "status": "False", "reason": "Pending", "lastTransitionTime": "2026-03-02T09:00:00Z",
        "message": "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/mig-3g.40gb"}]"#,
    r#"[{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "lastTransitionTime": "2026-03-02T09:00:10Z",
        "message": "Quota reserved in ClusterQueue research"}]"#,
    r#"[{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "lastTransitionTime": "2026-03-02T09:00:10Z",
        "message": "Quota reserved in ClusterQueue research"},
        {"type": "Admitted", "status": "True", "reason": "Admitted", "lastTransitionTime": "2026-03-02T09:02:30Z",
        "message": "The workload is admitted"}]"#,
];

/// A gated pod is never unschedulable. Kueue repeats the message of our check
/// on it, and we tell it the same.
#[test]
fn from_click_to_running_in_a_queue() {
    let click: Timestamp = BEGIN.parse().expect("it is a time");
    let mut person = Person::clicks(click);
    let at = |seconds| click + SignedDuration::from_secs(seconds);
    for (nth, conditions) in ADMISSION.iter().enumerate() {
        let status: WorkloadStatus =
            serde_json::from_str(&format!(r#"{{"conditions": {conditions}}}"#)).expect("it is a status");
        let queue = InQueue { name: Some("research"), conditions: &status.conditions };
        let now = at([0, 40, 150][nth]);
        if nth == 1 {
            let text = "n1 is changed for it: 3g.40gb will be ready there, at about 09:03";
            let (reason, _) = Kind::Coming.told();
            person.hears(now, false, reason, text);
            person.hears(now, false, "UpdatedAdmissionCheck", text);
        }
        person.looks(now, Some(&queue));
        if nth == 2 {
            person.hears(now, false, "Scheduled", "Successfully assigned team-a/lab-0 to n1");
            person.looks(now, Some(&queue));
            person.hears(now, false, "Started", "Started container lab");
            person.looks(now, Some(&queue));
        }
    }
    // Without a word of queues, what Kueue repeats is one more unknown event.
    let ends = ["Pod assigned", "Workbench container started"];
    let problem = "There was a problem with the workbench";
    let waits = "Waiting for server request to start...";
    assert_eq!(person.read_in("3.0"), [&[waits, problem][..], &ends].concat());
    // The quota is there long before the slice is; this line does not know it.
    let quota = "Waiting for quota in research";
    assert_eq!(person.read_in("3.4"), [&[quota, problem][..], &ends].concat());
    for release in ["3.5", "3.6"] {
        assert_eq!(person.read_in(release), [&[quota, "UpdatedAdmissionCheck"][..], &ends].concat());
    }
    assert!(person.log_says("SliceComing"));
}

/// The table of docs/adr/0014: what each of our words reads as, when it is the
/// newest.
#[test]
fn the_words_of_our_answers() {
    let click: Timestamp = BEGIN.parse().expect("it is a time");
    let mut table = String::new();
    for kind in [Kind::Free, Kind::Coming, Kind::Delayed, Kind::Unavailable] {
        let (reason, _) = kind.told();
        for warning in [false, true] {
            let mut person = Person::clicks(click);
            person.hears(click, warning, reason, "a sentence");
            person.looks(click + SignedDuration::from_mins(1), None);
            let kind = if warning { "Warning" } else { "Normal" };
            let lines = ["2.32.1", "3.4", "3.6"].map(|release| person.read_in(release).concat());
            table.push_str(&format!("| {kind} | `{reason}` | {} |\n", lines.join(" | ")));
        }
    }
    let page = include_str!("../../../../docs/adr/0014-what-a-person-reads.md");
    assert!(page.contains(&table), "docs/adr/0014 lacks this table:\n{table}");
}
