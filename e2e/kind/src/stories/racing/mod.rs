//! Pods that race for slices while others are cut anew beside them, with a real kubelet and NVIDIA's unmodified device
//! plugin. A cordon stops none of them: they are bound by hand. What keeps their slices is the gate and the proof of
//! `docs/adr/0013-node-agent.md`.

mod racers;
mod witness;

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, ensure};
use jiff::Timestamp;
use serde_json::Value;

use super::percentile;
use super::slicewright::on_demand;
use super::stage::{Stage, TEAM};
use crate::operator;
use crate::progress::clock;
use crate::waiting::pause;
use racers::{Numbers, Pace, race, refusal};
pub(super) use witness::Witness;

/// What decides the moments.
const SEED: u64 = 20;

/// When each of the steps to a pod that runs was over.
#[derive(Debug)]
struct Steps {
    asked: Timestamp,
    cordoned: Option<Timestamp>,
    offered: Option<Timestamp>,
    scheduled: Option<Timestamp>,
    runs: Timestamp,
}

#[expect(clippy::disallowed_methods, reason = "how long a step took is told to people and decides nothing")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// What is asked for, in turn: more than there is of it after the one before, and not so much that nothing is left to
/// race for.
fn asks(turn: u64, gpus: u64) -> (&'static str, u64) {
    if turn.is_multiple_of(2) { ("mig-1g.10gb", 7 * gpus - 5) } else { ("mig-3g.40gb", 2 * gpus - 1) }
}

pub(super) fn tell(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (node, gpus) = stage.starts_as("all-3g.40gb", ("mig-3g.40gb", 2))?;
    stage.governs(&node, &on_demand())?;
    stage.has_agents("change")?;
    stage.agent_reports(&node, "Change", |slices| slices.len() as u64 == 2 * gpus)?;

    let witness = Witness::begins(stage.on(&node))?;
    let pace = Pace::default();
    let start = clock();
    let (ends, steps) = std::thread::scope(|scope| {
        let races = scope.spawn(|| race(stage, &node, &witness, &pace, Numbers(SEED)));
        let cut = cut_anew(stage, &node, gpus, &witness, &pace);
        pace.is_over.store(true, Ordering::Relaxed);
        let ends = races.join().map_err(|_| anyhow::anyhow!("those who race do no more"))?;
        anyhow::Ok((ends?, cut?))
    })?;
    let took = start.elapsed().as_secs();

    let seen = witness.seen();
    let recuts = steps.iter().filter(|steps| duration(steps, &seen.destroyed).is_some()).count();
    let refused: u64 = ends.refused.values().sum();
    stage.notes.push(format!(
        "{} racing pods, seed {SEED}: {} admitted, {refused} refused by kubelet ({:?}), {} let in without a \
         device, {} withdrawn; {recuts} recuts \
         with {} slices destroyed and {} created; {} looks at the books, {took} s",
        pace.created.load(Ordering::Relaxed),
        ends.admitted,
        ends.refused,
        ends.without,
        ends.withdrawn,
        seen.destroyed.len(),
        seen.created.len(),
        seen.looks,
    ));
    stage.notes.extend(figures(&steps, &seen.created, &seen.destroyed));
    // Kubelet may have chosen a device for a pod that it refuses in the same breath.
    let lost: Vec<_> = seen.lost.iter().filter(|(pod, _)| !ends.refused_pods.contains(*pod)).collect();
    ensure!(lost.is_empty(), "{} pods lost their slices: {lost:?}", lost.len());
    ensure!(ends.harmed.is_empty(), "pods ended that nobody told to: {:#?}", ends.harmed);
    ensure!(recuts as u64 >= stage.often.recuts, "there were {recuts} recuts");
    drop(seen);
    drop(witness);

    stage.policy_is("Ready", "True")?;
    stage.is_uncordoned(&node)?;
    stage.nothing_is_paused(&node)?;
    stage.hands_over_to_mig_manager(&node)?;
    operator::install(stage.cluster, stage.place)
}

/// Asks for other slices again and again, as often as is wanted and for as long as those who race are not all created.
fn cut_anew(
    stage: &Stage<'_>,
    node: &str,
    gpus: u64,
    witness: &Witness,
    pace: &Pace,
) -> anyhow::Result<Vec<Steps>> {
    let (admissions, recuts) = (stage.often.admissions, stage.often.recuts);
    let mut steps: Vec<Steps> = Vec::new();
    // What one request left may serve the next one: that is no recut.
    let (mut tries, mut done) = (0, 0);
    loop {
        let all = pace.created.load(Ordering::Relaxed) >= admissions;
        if done >= recuts && all {
            return Ok(steps);
        }
        pace.may.store((admissions * (done + 1)).div_ceil(recuts.max(1)).min(admissions), Ordering::Relaxed);
        let (resource, many) = asks(steps.len() as u64, gpus);
        let before = witness.seen().destroyed.len();
        tries += 1;
        let name = format!("asks-{tries}");
        let mut uid = String::new();
        let served = asks_for(stage, node, &name, (resource, many), &mut uid)?;
        witness.are_told_to_end([uid]);
        stage.ends_work(&name)?;
        done += u64::from(served.is_some() && witness.seen().destroyed.len() > before);
        steps.extend(served);
        witness.is_awake()?;
    }
}

/// A pod asks by way of the scheduler, and waits until it runs. None, if one of those who race was faster, and kubelet
/// refused it for that.
fn asks_for(
    stage: &Stage<'_>,
    node: &str,
    name: &str,
    (resource, many): (&str, u64),
    uid: &mut String,
) -> anyhow::Result<Option<Steps>> {
    let mut pod = stage.pod(node, name, resource, many, "never");
    pod["spec"]["terminationGracePeriodSeconds"] = 1.into();
    stage.apply(&pod)?;
    let asked = now();
    let (mut cordoned, mut offered, mut scheduled, mut runs) = (None, None, None, None);
    let mut refused = false;
    stage.until(&format!("{name} runs on its {many} {resource}"), || {
        let (node, pod) = (format!("node/{node}"), format!("pod/{name}"));
        let both = stage.kubectl(&["get", &node, &pod, "--namespace", TEAM, "--output=json"])?;
        let both: Value = serde_json::from_str(&both).context("kubectl does not answer in JSON")?;
        let (node, pod) = (&both["items"][0], &both["items"][1]);
        let at = Some(now());
        pod["metadata"]["uid"].as_str().unwrap_or_default().clone_into(uid);
        if node["spec"]["unschedulable"] == true {
            cordoned = cordoned.or(at);
        }
        let there = node["status"]["allocatable"][format!("nvidia.com/{resource}")].as_str();
        if there.and_then(|there| there.parse().ok()).is_some_and(|there: u64| there >= many) {
            offered = offered.or(at);
        }
        if pod["spec"]["nodeName"].is_string() {
            scheduled = scheduled.or(at);
        }
        if pod["status"]["phase"] == "Running" {
            runs = at;
            return Ok(Ok(()));
        }
        refused = refusal(&pod["status"]).is_some();
        if refused {
            return Ok(Ok(()));
        }
        ensure!(pod["status"]["phase"] == "Pending", "it is {}", pod["status"]);
        pause(1);
        Ok(Err(format!("{} on {}", pod["status"], node["status"]["allocatable"])))
    })?;
    ensure!(refused || runs.is_some(), "{name} neither runs nor is refused");
    Ok(runs.map(|runs| Steps { asked, cordoned, offered, scheduled, runs }))
}

/// From the first of these moments in a turn to the last; none, if there are none.
fn duration(steps: &Steps, moments: &[Timestamp]) -> Option<(Timestamp, Timestamp)> {
    let mut there = moments.iter().copied().filter(|at| (steps.asked..steps.runs).contains(at));
    let first = there.next()?;
    Some((first, there.next_back().unwrap_or(first)))
}

/// How long each step took, of the turns in which slices were cut anew.
fn figures(steps: &[Steps], created: &[Timestamp], destroyed: &[Timestamp]) -> Vec<String> {
    let names = [
        "from the pod to the cordon",
        "from the cordon to the first slice that goes",
        "from there to the last slice that comes",
        "from there to allocatable",
        "from there to scheduled",
        "from there to a pod that runs",
        "from the pod to scheduled, in all",
    ];
    let mut took: [Vec<f64>; 7] = Default::default();
    for turn in steps {
        let (Some((goes, _)), Some((_, comes))) = (duration(turn, destroyed), duration(turn, created)) else {
            continue;
        };
        let Steps {
            asked,
            cordoned: Some(cordoned),
            offered: Some(offered),
            scheduled: Some(scheduled),
            runs,
        } = *turn
        else {
            continue;
        };
        let moments = [asked, cordoned, goes, comes, offered, scheduled, runs];
        for (values, pair) in took.iter_mut().zip(moments.windows(2)) {
            values.push(between(pair[0], pair[1]));
        }
        took[6].push(between(asked, scheduled));
    }
    names
        .into_iter()
        .zip(took)
        .filter_map(|(name, mut values)| {
            values.sort_by(f64::total_cmp);
            let (half, nearly_all) = (percentile(&values, 50)?, percentile(&values, 99)?);
            Some(format!("{name}, {} recuts: p50 {half:.1} s, p99 {nearly_all:.1} s", values.len()))
        })
        .collect()
}

fn between(from: Timestamp, to: Timestamp) -> f64 {
    Duration::try_from(to.duration_since(from)).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn each_turn_asks_for_more_than_the_one_before_can_have_left() {
        for gpus in 1..=8 {
            let ((small, sevenths), (large, halves)) = (asks(0, gpus), asks(1, gpus));
            assert_eq!((small, large), ("mig-1g.10gb", "mig-3g.40gb"));
            // A GPU of seven has no half; one half leaves room for three of them at most, or four.
            assert!(sevenths <= 7 * gpus && sevenths > 3 * gpus - 3 && halves <= 2 * gpus, "{gpus}");
        }
    }

    #[test]
    fn a_turn_in_which_nothing_was_cut_is_no_recut() {
        let steps = Steps {
            asked: at(10),
            cordoned: Some(at(11)),
            offered: Some(at(17)),
            scheduled: Some(at(18)),
            runs: at(20),
        };
        assert_eq!(duration(&steps, &[at(9), at(20)]), None);
        assert_eq!(duration(&steps, &[at(9), at(13), at(14), at(15)]), Some((at(13), at(15))));
        let lines = figures(&[steps], &[at(15)], &[at(12), at(13)]);
        assert_eq!(lines[0], "from the pod to the cordon, 1 recuts: p50 1.0 s, p99 1.0 s");
        assert_eq!(lines[3], "from there to allocatable, 1 recuts: p50 2.0 s, p99 2.0 s");
        assert_eq!(lines[6], "from the pod to scheduled, in all, 1 recuts: p50 8.0 s, p99 8.0 s");
    }
}
