//! Recordings of a cluster as a trace: files that `slicewright snapshot` wrote one after another.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use mig::ProfileName;
use observe::Objects;
use observe::pods::{Life, life, takes};
use observe::requests::namespace_labels;
use observe::snapshot::{self, Snapshot};
use reconcile::planned_round::see;
use reconcile::{Input, Obstacles, Settings};
use replay::fleet::{FleetGpu, FleetNode};
use replay::recorded::{Moment, Seen};
use replay::trace::MOST_SLICES;
use replay::{Asker, Fleet, Trace};

use crate::exit::{Failure, chain};
use crate::files;
use crate::question::refuse_errors;

/// Two or more recordings of one cluster, in the order of their times.
pub(super) struct Recordings {
    all: Vec<(String, Snapshot)>,
}

/// Whether a path is a recording or a folder of them, and not CSV.
pub(super) fn is_recorded(path: &Path) -> bool {
    path.is_dir() || has_extension_of_recordings(path)
}

fn has_extension_of_recordings(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json")
}

impl Recordings {
    /// Reads files, and all recordings of folders.
    ///
    /// # Errors
    /// Names the file and the field that make no sense, and what is allowed.
    pub(super) fn read(paths: &[PathBuf]) -> Result<Self, Failure> {
        let mut files = Vec::new();
        for path in paths {
            if path.is_dir() {
                files.extend(in_folder(path)?);
            } else {
                files.push(path.clone());
            }
        }
        let (mut all, mut problems) = (Vec::new(), Vec::new());
        for file in &files {
            let (name, text) = files::read(file)?;
            let snapshot = snapshot::read(&name, &text, &mut problems);
            all.push((name, snapshot));
        }
        refuse_errors(&problems)?;
        if let Some((file, _)) = all.iter().find(|(_, snapshot)| snapshot.provenance.redacted.is_some()) {
            return Err(Failure::Data(format!(
                "{file}: provenance.redacted: names are replaced anew in each recording, so nobody can tell which pods stay \
                 from one to the next; record without --redact"
            )));
        }
        all.sort_by(|(a, x), (b, y)| (x.taken_at, a).cmp(&(y.taken_at, b)));
        if all.len() < 2 {
            let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            let found = if all.is_empty() { "no recording" } else { "one recording" };
            return Err(Failure::Data(format!(
                "{}: holds {found}; who comes and who goes is told by two or more, which `slicewright snapshot` records \
                 one after another",
                paths.join(", "),
            )));
        }
        for ((a, before), (b, after)) in all.iter().zip(&all[1..]) {
            if before.taken_at == after.taken_at {
                return Err(Failure::Data(format!(
                    "{b}: takenAt: {} is also the time of {a}; each recording has a time of its own",
                    after.taken_at
                )));
            }
            if let (Some(one), Some(other)) = (&before.cluster, &after.cluster)
                && one != other
            {
                return Err(Failure::Data(format!(
                    "{b}: cluster: `{other}` is not `{one}`, of which {a} is; recordings of one cluster make a trace"
                )));
            }
        }
        Ok(Self { all })
    }

    /// The nodes with GPUs of the first recording.
    ///
    /// # Errors
    /// If it has none.
    pub(super) fn fleet(&self) -> Result<Fleet, Failure> {
        let (file, snapshot) = &self.all[0];
        let view = see(&Input {
            objects: &snapshot.objects,
            local: &BTreeMap::new(),
            map_changed: None,
            obstacles: &Obstacles::NONE,
            settings: &Settings::of_a_reader(),
            now: snapshot.taken_at,
        });
        let nodes = view.inventory.nodes.iter().filter(|(_, node)| !node.gpus.is_empty());
        let nodes = nodes.map(|(name, node)| {
            let gpu = |gpu: &planner::inventory::Gpu| FleetGpu {
                model: gpu.model.clone(),
                geometry: Arc::clone(&gpu.geometry),
            };
            FleetNode { name: name.clone(), gpus: node.gpus.values().map(gpu).collect() }
        });
        let nodes: Vec<FleetNode> = nodes.collect();
        if nodes.is_empty() {
            return Err(Failure::Data(format!(
                "{file}: objects: there is no node with GPUs whose model is known; name the fleet by --fleet, such as \
                 2x8xA100-80GB"
            )));
        }
        Ok(Fleet { nodes })
    }

    /// The trace, and the pods that ask for several profiles: a trace has one for each request.
    ///
    /// # Errors
    /// Names the file, the pod and the field that no GPU of the fleet can serve.
    pub(super) fn trace(&self, fleet: &Fleet) -> Result<(Trace, Vec<String>), Failure> {
        let known = fleet.profiles();
        let begin = self.all[0].1.taken_at;
        let (mut moments, mut of_several) = (Vec::new(), Vec::new());
        for (file, snapshot) in &self.all {
            let mut moment =
                Moment { at: snapshot.taken_at.as_second() - begin.as_second(), ..Moment::default() };
            for pod in snapshot.objects.pods.values().filter(|pod| life(pod) != Life::Ended) {
                let slices = pod.spec.as_ref().map(takes).map(|takes| takes.slices).unwrap_or_default();
                let mut slices = slices.into_iter().filter(|(_, n)| *n > 0);
                let Some((profile, count)) = slices.next() else { continue };
                let name = name(pod);
                if slices.next().is_some() {
                    of_several.push(name);
                    continue;
                }
                if !known.contains(&profile) || count > MOST_SLICES {
                    return Err(strange(file, &name, profile, count, fleet));
                }
                let metadata = &pod.metadata;
                let created =
                    metadata.creation_timestamp.as_ref().map(|at| at.0.as_second() - begin.as_second());
                // A recording without uids tells pods of one name apart by their age.
                let uid = metadata.uid.clone().or_else(|| created.map(|at| at.to_string()));
                let (uid, asker) = (uid.unwrap_or_default(), asker(pod, &snapshot.objects));
                moment.pods.push(Seen { pod: name, uid, created, profile, count, asker });
            }
            moments.push(moment);
        }
        of_several.sort();
        of_several.dedup();
        Ok((Trace::from_moments(&moments), of_several))
    }

    /// The names of the files, for messages.
    pub(super) fn words(&self) -> String {
        format!("{} to {}", self.all[0].0, self.all[self.all.len() - 1].0)
    }
}

fn name(pod: &Pod) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}/{}", part(&pod.metadata.namespace), part(&pod.metadata.name))
}

/// Who asks: the namespace with its labels, and the priority that the API server has admitted.
fn asker(pod: &Pod, objects: &Objects) -> Asker {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let labels = namespace_labels(objects, &namespace);
    let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
    Asker { namespace, labels, priority }
}

fn strange(file: &str, pod: &str, profile: ProfileName, count: u32, fleet: &Fleet) -> Failure {
    let known: Vec<String> = fleet.profiles().iter().map(ToString::to_string).collect();
    let resource = profile.resource_name();
    Failure::Data(format!(
        "{file}: Pod {pod}: spec.containers[].resources.limits[{resource}]: `{count}` cannot be played; the fleet's GPUs \
         have {}, and one request asks for at most {MOST_SLICES}",
        known.join(", ")
    ))
}

/// The recordings of a folder, by name.
fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let wrong =
        |error: &std::io::Error| Failure::Data(format!("cannot list {}: {}", folder.display(), chain(error)));
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| wrong(&error))? {
        let path = entry.map_err(|error| wrong(&error))?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !path.is_dir() && !is_hidden && has_extension_of_recordings(&path) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
