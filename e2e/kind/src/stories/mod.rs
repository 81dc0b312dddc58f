//! Stories that only this cluster can show: real kubelets and NVIDIA's own components over simulated GPUs.
//! Each states in a sentence what it shows, does what a person would do, and fails if the outcome is
//! different.
//!
//! A story takes its worker as it finds it and brings it to the layout that it
//! needs, so that any of them can run alone, and after any other.

mod agent;
mod by_hand;
mod cdi;
mod dra;
mod faults;
mod hardware;
mod labels;
mod mps;
mod queue;
mod racing;
mod restarts;
mod seed;
mod sharing;
mod slicewright;
mod stage;
mod whole;
mod workbench;

use std::io::Write;

use anyhow::Context;

use crate::cluster::Cluster;
use crate::place::Place;
use crate::progress::Progress;
use stage::Stage;

type Tell = fn(&mut Stage<'_>) -> anyhow::Result<()>;

/// One story.
struct Story {
    name: &'static str,
    shows: &'static str,
    tell: Tell,
}

const STORIES: &[Story] = &[
    Story {
        name: "seed",
        shows: "a person labels a node, MIG manager cuts seven slices a GPU, and a workbench gets one",
        tell: seed::tell,
    },
    Story {
        name: "plugin-restart",
        shows: "a pod keeps its slice over a restart of the device plugin, and nobody else gets it",
        tell: hardware::plugin_restarts,
    },
    Story {
        name: "two-gpus",
        shows: "a pod of two whole GPUs gets them, of which the device plugin said that it prefers them",
        tell: hardware::two_whole_gpus,
    },
    Story {
        name: "cdi",
        shows: "a container gets its slice by CDI, under the slice's UUID, with the library that its image lacks",
        tell: cdi::tell,
    },
    Story {
        name: "dra",
        shows: "NVIDIA's DRA driver publishes every placement that our rules know, and makes a slice for a claim",
        tell: dra::tell,
    },
    Story {
        name: "busy-slice",
        shows: "MIG manager fails at a slice that a program has open; parked operands are healed by a new manager's pod",
        tell: faults::busy_slice,
    },
    Story {
        name: "idle-notebook",
        shows: "MIG manager takes a slice from a pod that has not opened it, and says success",
        tell: faults::idle_notebook,
    },
    Story {
        name: "failed-reset",
        shows: "a reset that fails leaves the mode pending and the node failed; cured, it converges",
        tell: faults::failed_reset,
    },
    Story {
        name: "reboot",
        shows: "a restarted worker has lost its instances, and MIG manager cuts them again",
        tell: hardware::reboot,
    },
    Story {
        name: "shared-by-hand",
        shows: "sharing that is switched on, off, up and down kills no pod, and gives pods that have a GPU neighbours",
        tell: by_hand::tell,
    },
    Story {
        name: "shared-by-fewer",
        shows: "when fewer share each GPU, all may fit in sum, and one GPU still gets more sharers than the new number",
        tell: by_hand::tell_of_fewer,
    },
    Story {
        name: "mps-refused",
        shows: "the device plugin exits with MPS under mixed, and with one replica; the operator refuses both before it would",
        tell: mps::tell,
    },
    Story {
        name: "labels",
        shows: "GFD and the Operator write what the virtual nodes write, apart from the differences that are explained",
        tell: labels::tell,
    },
    Story {
        name: "slicewright",
        shows: "Slicewright, installed by its chart, cuts a worker as a policy says, and a pod runs on a slice",
        tell: slicewright::follows,
    },
    Story {
        name: "workbench",
        shows: "a workbench asks by its hardware profile for a slice that its pool lacks, gets it, and frees it when stopped",
        tell: workbench::tell,
    },
    Story {
        name: "queue",
        shows: "a workbench waits in a queue of Kueue until its slice is cut, and runs on the node that was planned for it",
        tell: queue::tell,
    },
    Story {
        name: "whole-gpus",
        shows: "two of a worker's GPUs become whole for a pod of two beside slices for others, and are cut again",
        tell: whole::tell,
    },
    Story {
        name: "sharing",
        shows: "four pods share each T4 as a policy says, one more is told why not, and who has a GPU alone keeps it alone",
        tell: sharing::tell,
    },
    Story {
        name: "agent",
        shows: "an agent knows which pod has which slice, and cuts the rest of a GPU anew while pods compute on it",
        tell: agent::tell,
    },
    Story {
        name: "racing",
        shows: "pods that race for slices lose none, by the serial of the instance, while others are cut anew beside them",
        tell: racing::tell,
    },
    Story {
        name: "restarts",
        shows: "agent, operators and kubelet are killed at each step of a change, pods beside it keep their slices, and it ends well",
        tell: restarts::tell,
    },
    Story {
        name: "stopped-plugin",
        shows: "a slice that kubelet has chosen and no book names yet stays, however long the device plugin takes to answer",
        tell: restarts::tell_of_a_stopped_plugin,
    },
    Story {
        name: "slicewright-drains",
        shows: "a slice in use stays until the policy allows eviction, and then a PodDisruptionBudget is respected",
        tell: slicewright::drains,
    },
    Story {
        name: "slicewright-reboot",
        shows: "a worker that is restarted in the middle of a rollout ends in the layout that the policy says",
        tell: slicewright::survives,
    },
    Story {
        name: "slicewright-rollover",
        shows: "operators that are rolled over and killed in the middle of a rollout are taken over from by the next",
        tell: slicewright::outlives_its_operators,
    },
    Story {
        name: "slicewright-uninstall",
        shows: "helm uninstall frees a node that waits, cordoned, and takes nothing from a pod; installed again, it goes on",
        tell: slicewright::leaves,
    },
];

/// After so many stories kube-proxies start anew, which is well before the first of them is an hour old.
const BETWEEN_FRESH_PROXIES: usize = 5;

/// What there is to tell: names, each with what it shows.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    STORIES.iter().map(|story| (story.name, story.shows))
}

/// Whether a word means a story: by its name, or by a part of it where no
/// story has that very name.
fn is_meant(name: &str, word: &str) -> bool {
    let exact = STORIES.iter().any(|story| story.name == word);
    if exact { name == word } else { name.contains(word) }
}

/// How often what takes time is done.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Often {
    /// How often `shared-by-hand` switches a node to measure how long that
    /// takes; 100 for a 99th percentile that is not the maximum
    #[arg(long, value_name = "TIMES", default_value_t = 21)]
    pub switches: u32,
    /// How many pods race for slices in `racing`; with none it measures how
    /// long a recut takes, by stage
    #[arg(long, value_name = "PODS", default_value_t = 60)]
    pub admissions: u64,
    /// How often slices are cut anew meanwhile
    #[arg(long, value_name = "TIMES", default_value_t = 4)]
    pub recuts: u64,
}

/// The least of sorted values that so many in a hundred are not above.
fn percentile(sorted: &[f64], hundredths: usize) -> Option<f64> {
    let rank = (sorted.len() * hundredths).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

/// Tells those that one of these words means; all without any.
///
/// # Errors
/// When a story ends otherwise, with everything that is to be known of it; the
/// stories after it are told all the same.
pub fn tell<W: Write>(
    cluster: &Cluster<'_>,
    place: &Place,
    wanted: &[String],
    often: Often,
    progress: &mut Progress<W>,
) -> anyhow::Result<()> {
    let chosen: Vec<&Story> = STORIES
        .iter()
        .filter(|story| wanted.is_empty() || wanted.iter().any(|word| is_meant(story.name, word)))
        .collect();
    let known = STORIES.iter().map(|story| story.name).collect::<Vec<_>>().join(", ");
    anyhow::ensure!(!chosen.is_empty(), "there is no such story; there are {known}");
    let mut failed = Vec::new();
    for (number, story) in chosen.into_iter().enumerate() {
        if number % BETWEEN_FRESH_PROXIES == 0 {
            progress.step("kube-proxies start anew", || cluster.renew_proxies())?;
        }
        progress.say(&format!("{}: {}", story.name, story.shows))?;
        let mut notes = Vec::new();
        let told = progress.step(&format!("the story {}", story.name), || {
            let mut stage = Stage::empty(cluster, place, often)?;
            let told = (story.tell)(&mut stage).with_context(|| format!("the story {}", story.name));
            notes = std::mem::take(&mut stage.notes);
            let cleaned = if told.is_ok() { stage.clear() } else { Ok(()) };
            told.and(cleaned)
        });
        for note in notes {
            progress.say(&format!("{}: {note}", story.name))?;
        }
        if let Err(error) = told {
            progress.say(&format!("{}: FAILED: {error:#}", story.name))?;
            let logs = place.folder().join("logs").join(story.name);
            crate::place::remove(&logs)?;
            crate::logs::collect(cluster, place, &logs)?;
            progress.say(&format!("{}: what is to be known of it is in {}", story.name, logs.display()))?;
            failed.push(story.name);
        }
    }
    anyhow::ensure!(failed.is_empty(), "ended otherwise: {}", failed.join(", "));
    // Scenarios bring an operator of their own; two would be at odds.
    progress.step("removing Slicewright", || crate::operator::remove(cluster))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_that_story_and_a_part_of_names_all_that_have_it() {
        let meant = |word: &str| -> Vec<&str> {
            names().map(|(name, _)| name).filter(|name| is_meant(name, word)).collect()
        };
        assert_eq!(meant("reboot"), ["reboot"]);
        assert_eq!(meant("boot"), ["reboot", "slicewright-reboot"]);
        assert_eq!(meant("nothing"), Vec::<&str>::new());
    }

    #[test]
    fn a_percentile_is_one_of_the_values_that_were_measured() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!((percentile(&values, 50), percentile(&values, 99)), (Some(50.0), Some(99.0)));
        assert_eq!((percentile(&values[..21], 50), percentile(&values[..21], 99)), (Some(11.0), Some(21.0)));
        assert_eq!((percentile(&values[..1], 50), percentile(&[], 99)), (Some(1.0), None));
    }

    #[test]
    fn names_are_different_and_the_documentation_has_them_all() {
        let text = include_str!("../../../../docs/e2e.md");
        let mut seen = std::collections::BTreeSet::new();
        for (name, _) in names() {
            assert!(seen.insert(name), "{name} twice");
            assert!(text.contains(&format!("| `{name}` |")), "docs/e2e.md says nothing of {name}");
        }
    }
}
