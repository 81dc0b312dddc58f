//! Who had which slice, and which of all that ever were at its place it was: kubelet's book and the machine beside it,
//! read on the node again and again for as long as the race runs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, ensure};
use gpu::{Event, Happened};
use jiff::Timestamp;
use serde_json::Value;
use store::State;

use crate::waiting::pause;

/// What the node says for every line that it is sent, and no longer than somebody sends: kubelet's book first, so that
/// a slice that goes between the two was in the book while it was there. The state's first line is a checksum.
const LOOK: &str = "while read -r _; do \
    echo \"book $(tr -d '\\n' </var/lib/kubelet/device-plugins/kubelet_internal_checkpoint)\"; \
    echo \"state $(tail -n +2 /var/lib/slicewright-sim/state)\"; done";

/// The uid of a pod, and the UUID of a slice that kubelet gave to it.
type Given = (String, String);

/// What was seen.
#[derive(Debug, Default)]
pub(in crate::stories) struct Seen {
    /// How often the node was looked at.
    pub(in crate::stories) looks: u64,
    /// The serial of each slice that a pod was given, when the book had it first.
    pub(in crate::stories) given: BTreeMap<Given, u64>,
    /// Pods that lost a slice, each with what was seen.
    pub(in crate::stories) lost: BTreeMap<String, String>,
    /// What happened to slices, and when.
    pub(in crate::stories) created: Vec<Timestamp>,
    pub(in crate::stories) destroyed: Vec<Timestamp>,
    /// Pods that are told to end, and those that had ended before: their entries stay in the book for a while.
    over: BTreeSet<String>,
    begun: bool,
    events: u64,
}

impl Seen {
    /// Whether a pod was in kubelet's book with a slice.
    pub(in crate::stories) fn knows(&self, pod: &str) -> bool {
        self.given.keys().any(|(has, _)| has == pod) || self.lost.contains_key(pod)
    }

    /// One look: kubelet's book, and the machine after it.
    fn look(&mut self, book: &Value, serials: &BTreeMap<String, u64>) {
        self.looks += 1;
        let entries: Vec<Given> = entries(book).collect();
        if !std::mem::replace(&mut self.begun, true) {
            self.over.extend(entries.into_iter().map(|(pod, _)| pod));
            return;
        }
        for (pod, uuid) in entries {
            if self.over.contains(&pod) {
                continue;
            }
            let now = serials.get(&uuid).copied();
            let key = (pod.clone(), uuid.clone());
            match (self.given.get(&key).copied(), now) {
                (None, Some(serial)) => drop(self.given.insert(key, serial)),
                (had, now) if had.is_none() || had != now => {
                    let text = format!("{uuid}: it had {had:?}, and there is {now:?}");
                    self.lost.entry(pod).or_insert(text);
                }
                _ => {}
            }
        }
    }

    fn happened(&mut self, events: &[Event], count: u64) {
        // The events of before the race are nobody's here.
        if self.events > 0 {
            for event in events {
                match event.what {
                    Happened::Created { .. } => self.created.push(event.at),
                    Happened::Destroyed { .. } => self.destroyed.push(event.at),
                    _ => {}
                }
            }
        }
        self.events = count;
    }
}

/// Which pods have which devices that are slices, by kubelet's checkpoint.
fn entries(book: &Value) -> impl Iterator<Item = Given> {
    let all = book["Data"]["PodDeviceEntries"].as_array().into_iter().flatten();
    all.flat_map(|entry| {
        let pod = entry["PodUID"].as_str().unwrap_or_default().to_owned();
        let nodes = entry["DeviceIDs"].as_object().into_iter().flatten();
        let ids = nodes.flat_map(|(_, ids)| ids.as_array().into_iter().flatten());
        let slices = ids.filter_map(Value::as_str).filter(|id| id.starts_with("MIG-"));
        slices.map(|id| (pod.clone(), id.to_owned())).collect::<Vec<_>>()
    })
}

/// The serial of each slice of a machine, by its UUID.
fn serials(state: &State) -> BTreeMap<String, u64> {
    let gpus = state.machine.gpus().iter();
    let slices = gpus.flat_map(|gpu| {
        gpu.instances
            .values()
            .flat_map(move |gi| gi.compute.values().map(move |ci| (gpu.mig_uuid(gi, ci), gi.serial())))
    });
    slices.collect()
}

/// Looks at a node until it is dropped.
pub(in crate::stories) struct Witness {
    seen: Arc<Mutex<Seen>>,
    ends: Arc<AtomicBool>,
    reads: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Witness {
    /// Begins to look; `enter` is the command that runs a program on the node.
    pub(in crate::stories) fn begins(mut enter: Command) -> anyhow::Result<Self> {
        let looks = enter
            .args(["sh", "-c", LOOK])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("nobody can look at the node")?;
        let (seen, ends) = (Arc::new(Mutex::new(Seen::default())), Arc::new(AtomicBool::new(false)));
        let (shared, told) = (Arc::clone(&seen), Arc::clone(&ends));
        let reads = std::thread::spawn(move || watch(looks, &shared, &told));
        Ok(Self { seen, ends, reads: Some(reads) })
    }

    /// What was seen so far.
    pub(in crate::stories) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These pods are told to end next: what becomes of their slices from now on is as it should be.
    pub(in crate::stories) fn are_told_to_end(&self, pods: impl IntoIterator<Item = String>) {
        self.seen().over.extend(pods);
    }

    /// Whether it still looks.
    pub(in crate::stories) fn is_awake(&self) -> anyhow::Result<()> {
        let is = self.reads.as_ref().is_some_and(|reads| !reads.is_finished());
        ensure!(is, "nobody looks at the node any more");
        Ok(())
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(reads) = self.reads.take() {
            let _ = reads.join();
        }
    }
}

/// Looks until it is told to end, or until the node says nothing more.
fn watch(mut looks: Child, seen: &Mutex<Seen>, ends: &AtomicBool) -> anyhow::Result<()> {
    let asks = looks.stdin.take().context("nothing can be asked on the node")?;
    let says = looks.stdout.take().context("what is seen on the node goes nowhere")?;
    let looked = look_on(asks, BufReader::new(says), seen, ends);
    let _ = looks.kill();
    looks.wait()?;
    looked
}

/// As long as nobody says that it ends; with it goes the pipe by which the node is asked.
fn look_on(
    mut asks: impl Write,
    mut says: impl BufRead,
    seen: &Mutex<Seen>,
    ends: &AtomicBool,
) -> anyhow::Result<()> {
    while !ends.load(Ordering::Relaxed) {
        asks.write_all(b"\n")?;
        let (mut book, mut state) = (String::new(), String::new());
        says.read_line(&mut book)?;
        ensure!(says.read_line(&mut state)? > 0, "the node says nothing more");
        // Who reads at the moment in which kubelet writes its book may find it cut off.
        let book = book.strip_prefix("book ").and_then(|text| serde_json::from_str::<Value>(text).ok());
        let state = state.strip_prefix("state ").and_then(|text| serde_json::from_str::<State>(text).ok());
        if let (Some(book), Some(state)) = (book, state) {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let from = seen.events;
            seen.happened(state.machine.events_from(from), state.machine.event_count());
            seen.look(&book, &serials(&state));
        }
        pause(1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn book(pods: &[(&str, &str)]) -> Value {
        let entry = |(pod, slice): &(&str, &str)| json!({"PodUID": pod, "DeviceIDs": {"-1": [slice]}});
        json!({"Data": {"PodDeviceEntries": pods.iter().map(entry).collect::<Vec<_>>()}})
    }

    fn there(slices: &[(&str, u64)]) -> BTreeMap<String, u64> {
        slices.iter().map(|(uuid, serial)| ((*uuid).to_owned(), *serial)).collect()
    }

    fn seen(looks: &[(Value, BTreeMap<String, u64>)]) -> Seen {
        let mut seen = Seen::default();
        seen.look(&book(&[("before", "MIG-0")]), &there(&[]));
        looks.iter().for_each(|(book, slices)| seen.look(book, slices));
        seen
    }

    #[test]
    fn a_slice_that_is_made_again_at_its_place_is_another_one() {
        let had = book(&[("p", "MIG-1"), ("before", "MIG-0")]);
        let well = seen(&[(had.clone(), there(&[("MIG-1", 7)])), (had.clone(), there(&[("MIG-1", 7)]))]);
        assert_eq!((well.given.len(), well.lost.len()), (1, 0));
        let again = seen(&[(had.clone(), there(&[("MIG-1", 7)])), (had.clone(), there(&[("MIG-1", 8)]))]);
        assert_eq!(again.lost["p"], "MIG-1: it had Some(7), and there is Some(8)");
        let gone = seen(&[(had, there(&[]))]);
        assert_eq!(gone.lost["p"], "MIG-1: it had None, and there is None");
    }

    #[test]
    fn who_is_told_to_end_loses_nothing() {
        let had = book(&[("p", "MIG-1")]);
        let mut seen = seen(&[(had.clone(), there(&[("MIG-1", 7)]))]);
        seen.over.insert("p".to_owned());
        seen.look(&had, &there(&[]));
        assert!(seen.lost.is_empty());
    }
}
