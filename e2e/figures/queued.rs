//! How long a workload of Kueue that has got its quota waits for an answer of our admission check.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use e2e::audit::Request;
use e2e::queue::{CHECK, job, kueue, one_queue, workloads};
use e2e::{Scene, mig};
use futures::{Stream, StreamExt, TryStreamExt};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Config, Event};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{HALF, PATIENCE, percentiles, quiet};

/// How many whole GPUs a pod wants that nobody can serve: both of a node on which somebody holds a slice.
const WANTED: u32 = 2;

/// How many objects are written at the same time.
const AT_A_TIME: usize = 16;

pub(crate) const HEAD: &str = "\
| workloads that have ended | waiting | from quota to the first answer p50, p99 | from Kueue's entry to it | whose slice is free | from quota to the answer p50, p99 | from Kueue's entry to it | our writes for each |
|---|---|---|---|---|---|---|---|";

/// The workloads of Kueue, and when each of them had got so far, as this program saw it.
#[derive(Default)]
struct Seen {
    reserved: BTreeMap<String, Instant>,
    /// Since when there is Kueue's entry for our check, which it makes in a write of its own: shortly before it gives quota,
    /// or where many come at once, after that. Before it there is nothing to answer.
    asked: BTreeMap<String, Instant>,
    answered: BTreeMap<String, Instant>,
}

impl Seen {
    /// Notes what is new about a workload.
    fn see(&mut self, workload: &DynamicObject) {
        let status = &workload.data["status"];
        let owner = workload.metadata.owner_references.iter().flatten().next();
        let Some(owner) = owner.map(|owner| owner.name.clone()) else { return };
        let any = |of: &str, is: &dyn Fn(&Value) -> bool| status[of].as_array().into_iter().flatten().any(is);
        if any("conditions", &|of| of["type"] == "QuotaReserved" && of["status"] == "True") {
            self.reserved.entry(owner.clone()).or_insert_with(Instant::now);
        }
        if any("admissionChecks", &|of| of["name"] == CHECK) {
            self.asked.entry(owner.clone()).or_insert_with(Instant::now);
        }
        // Kueue makes the entry, without a word; the words are ours.
        let is_said = |of: &Value| of["message"].as_str().is_some_and(|message| !message.is_empty());
        if any("admissionChecks", &|of| of["name"] == CHECK && is_said(of)) {
            self.answered.entry(owner).or_insert_with(Instant::now);
        }
    }
}

/// So many workloads of jobs that have ended, as Kueue keeps them until somebody deletes the jobs.
async fn have_ended(scene: &Scene, many: u32) -> anyhow::Result<()> {
    let api = &workloads(scene).await?;
    let template = &job("past", &mig("1g.10gb"), 1)["spec"]["template"];
    let finished = json!({"type": "Finished", "status": "True", "reason": "Succeeded", "message": "",
        "lastTransitionTime": "2026-11-19T08:00:00Z"});
    let status = json!({"status": {"conditions": [finished]}});
    let ended = (0..many).map(|n| {
        let spec =
            json!({"queueName": "past", "podSets": [{"name": "main", "count": 1, "template": template}]});
        let (name, status) = (format!("past-{n}"), status.clone());
        async move {
            let past: DynamicObject = serde_json::from_value(kueue("Workload", &name, spec))?;
            api.create(&PostParams::default(), &past).await?;
            api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
            anyhow::Ok(())
        }
    });
    futures::stream::iter(ended).buffer_unordered(AT_A_TIME).try_collect().await
}

/// A job whose pod runs on one of a half of the nodes.
fn on(half: &str, mut job: Value, count: u32) -> Value {
    let pod = &mut job["spec"]["template"]["spec"];
    pod["nodeSelector"] = json!({HALF: half});
    for kind in ["requests", "limits"] {
        if let Some(asked) = pod["containers"][0]["resources"][kind].as_object_mut() {
            let slices = asked.iter_mut().filter(|(name, _)| name.starts_with("nvidia.com/"));
            slices.for_each(|(_, n)| *n = json!(count.to_string()));
        }
    }
    job
}

/// What is answered, as a watch of this program's own brings it.
struct Answers<W> {
    events: W,
    seen: Seen,
}

impl<W: Stream<Item = watcher::Result<Event<DynamicObject>>> + Unpin> Answers<W> {
    /// Waits until the watch has listed what is there. With ten thousand objects that takes seconds, which
    /// nobody waits for who is answered.
    async fn listed(&mut self) -> anyhow::Result<()> {
        loop {
            let next = tokio::time::timeout(PATIENCE, self.events.next()).await;
            match next.context("the workloads are not listed")?.context("the watch ended")?? {
                Event::InitDone => return Ok(()),
                Event::Apply(workload) | Event::InitApply(workload) => self.seen.see(&workload),
                Event::Init | Event::Delete(_) => {}
            }
        }
    }

    /// Waits until so many workloads have an answer. Polled from the first of their jobs on, since it is
    /// the moment of polling that is noted.
    async fn until(&mut self, many: u32) -> anyhow::Result<()> {
        while self.seen.answered.len() < many as usize {
            let waits = || format!("{} of {many} workloads have an answer", self.seen.answered.len());
            let next = tokio::time::timeout(PATIENCE, self.events.next()).await;
            match next.with_context(waits)?.context("the watch ended")?? {
                Event::Apply(workload) | Event::InitApply(workload) => self.seen.see(&workload),
                Event::Init | Event::InitDone | Event::Delete(_) => {}
            }
        }
        Ok(())
    }

    /// From quota to answer, and from Kueue's entry to it, of those whose names begin so.
    fn took(&self, prefix: &str) -> [Vec<Duration>; 2] {
        let Seen { reserved, asked, answered } = &self.seen;
        [reserved, asked].map(|begun| {
            let of = answered.iter().filter(|(name, _)| name.starts_with(prefix));
            of.filter_map(|(name, at)| Some(at.duration_since(*begun.get(name)?))).collect()
        })
    }
}

/// Beside so many workloads that have ended puts so many jobs into a queue that nobody can serve, at once, and then, one
/// after another, so many whose slice is free. A line of a table.
///
/// # Errors
/// When one of them is not answered.
pub(crate) async fn measure(scene: &Scene, ended: u32, waiting: u32, free: u32) -> anyhow::Result<String> {
    have_ended(scene, ended).await?;
    let (whole, small) = (mig("7g.80gb"), mig("1g.10gb"));
    one_queue(scene, &[(&whole, WANTED * waiting), (&small, free)]).await?;
    let events = Box::pin(watcher::watcher(workloads(scene).await?, Config::default()));
    let mut answers = Answers { events, seen: Seen::default() };
    answers.listed().await?;
    let jobs = async {
        for n in 0..waiting {
            scene.apply(on("busy", job(&format!("waits-{n}"), &whole, 1), WANTED)).await?;
        }
        anyhow::Ok(())
    };
    tokio::try_join!(jobs, answers.until(waiting))?;
    quiet(scene).await?;
    let audit = scene.audit_from_now()?;
    for n in 0..free {
        let applied = scene.apply(on("idle", job(&format!("gets-{n}"), &small, 1), 1));
        tokio::try_join!(applied, answers.until(waiting + n + 1))?;
    }
    quiet(scene).await?;
    let about_workloads = |request: &&Request| request.object_ref.resource == "workloads";
    let writes = audit.writes()?.iter().filter(about_workloads).count();
    let each = f64::from(u32::try_from(writes)?) / f64::from(free.max(1));
    let took = |prefix: &str| answers.took(prefix).map(|mut took| percentiles(&mut took)).join(" | ");
    Ok(format!("| {ended} | {waiting} | {} | {free} | {} | {each:.1} |", took("waits-"), took("gets-")))
}
