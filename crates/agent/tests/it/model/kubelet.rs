//! Kubelet's device manager as its source says (`pkg/kubelet/cm/devicemanager`),
//! with NVIDIA's plugin: a choice, the plugin's answer and the entry in the
//! books are apart, and anything may happen between them.

use std::collections::{BTreeMap, BTreeSet};

use agent::{Container, Device, DeviceId, Listed, Pod, PodLife, PodUid, Recorded};
use mig::ProfileName;

use super::gpus::{Gpus, device};

/// What the containers of a pod ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// One container, one slice.
    Plain,
    /// An init container that only the checkpoint knows, and another one.
    OnlyInit,
    /// Two containers, one after the other.
    Two,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Bound,
    Admitted,
    Ended,
    Deleted,
}

#[derive(Clone, Debug)]
pub(crate) struct ThePod {
    pub(crate) uid: PodUid,
    pub(crate) name: String,
    pub(crate) ask: Ask,
    pub(crate) profile: ProfileName,
    pub(crate) life: Life,
    /// The slices that kubelet gave it, by serial.
    pub(crate) given: BTreeSet<u64>,
}

impl ThePod {
    /// Its containers: name, whether it is an ordinary init container, and how many slices.
    fn containers(&self) -> Vec<(&'static str, bool, u64)> {
        match self.ask {
            Ask::Plain => vec![("main", false, 1)],
            Ask::OnlyInit => vec![("init", true, 1), ("main", false, 0)],
            Ask::Two => vec![("main", false, 1), ("side", false, 1)],
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        matches!(self.life, Life::Bound | Life::Admitted)
    }
}

/// The plugin: its pod in the API, and its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plugin {
    Absent,
    Starting,
    Running,
    Stopping,
}

#[derive(Clone, Debug)]
enum Stage {
    Choosing,
    Chosen(Vec<(DeviceId, u64)>),
    Answered(Vec<(DeviceId, u64)>),
    Entered,
}

#[derive(Clone, Debug)]
struct Flight {
    pod: PodUid,
    container: usize,
    stage: Stage,
}

type Entries = BTreeMap<(PodUid, &'static str), Vec<DeviceId>>;

#[derive(Debug)]
pub(crate) struct Kubelet {
    pub(crate) pods: Vec<ThePod>,
    pub(crate) plugin: Plugin,
    /// What the plugin told when it registered, by device: the profile, and the
    /// serial that the slice had.
    healthy: BTreeMap<DeviceId, (ProfileName, u64)>,
    allocated: BTreeMap<DeviceId, PodUid>,
    entries: Entries,
    checkpoint: Entries,
    flight: Option<Flight>,
}

impl Kubelet {
    pub(crate) fn new(gpus: &Gpus) -> Self {
        let mut this = Self {
            pods: Vec::new(),
            plugin: Plugin::Running,
            healthy: BTreeMap::new(),
            allocated: BTreeMap::new(),
            entries: Entries::new(),
            checkpoint: Entries::new(),
            flight: None,
        };
        this.register(gpus);
        this
    }

    pub(crate) fn bind(&mut self, ask: Ask, profile: ProfileName) {
        let n = self.pods.len();
        let (uid, name) = (PodUid(format!("uid-{n}")), format!("pod-{n}"));
        self.pods.push(ThePod { uid, name, ask, profile, life: Life::Bound, given: BTreeSet::new() });
    }

    fn pod(&mut self, uid: &PodUid) -> &mut ThePod {
        self.pods.iter_mut().find(|pod| pod.uid == *uid).unwrap()
    }

    /// The plugin enumerates and registers.
    pub(crate) fn register(&mut self, gpus: &Gpus) {
        if self.plugin == Plugin::Running {
            let one = |(name, serial): (agent::SliceName, u64)| (device(&name), (name.place.profile, serial));
            self.healthy = gpus.all().filter(|(name, _)| gpus.answers(&name.gpu)).map(one).collect();
        }
    }

    pub(crate) fn is_registered(&self) -> bool {
        !self.healthy.is_empty()
    }

    /// The plugin's stream ends.
    pub(crate) fn plugin_stops(&mut self) {
        self.plugin = Plugin::Stopping;
        self.healthy.clear();
    }

    /// Devices of ended pods are freed: the choice in flight is forgotten, if
    /// there were any (kubernetes#137534).
    fn free_ended(&mut self) {
        let ended: BTreeSet<_> = self.pods.iter().filter(|p| !p.is_live()).map(|p| p.uid.clone()).collect();
        let before = self.entries.len();
        self.entries.retain(|(uid, _), _| !ended.contains(uid));
        if self.entries.len() < before {
            self.rebuild();
        }
    }

    fn rebuild(&mut self) {
        let all =
            self.entries.iter().flat_map(|((uid, _), ids)| ids.iter().map(|id| (id.clone(), uid.clone())));
        self.allocated = all.collect();
    }

    /// One step of the pod that is being admitted, or the first of the next one.
    pub(crate) fn admit(&mut self, gpus: &Gpus) -> Vec<String> {
        let Some(Flight { pod: uid, container, stage }) = self.flight.clone() else {
            if let Some(pod) = self.pods.iter().find(|pod| pod.life == Life::Bound) {
                self.flight = Some(Flight { pod: pod.uid.clone(), container: 0, stage: Stage::Choosing });
            }
            return Vec::new();
        };
        let mut breaches = Vec::new();
        let containers = self.pod(&uid).containers();
        let Some((name, _, count)) = containers.get(container).copied() else {
            let pod = self.pod(&uid);
            if pod.life == Life::Bound {
                pod.life = Life::Admitted;
            }
            self.flight = None;
            return breaches;
        };
        let next = match stage {
            Stage::Choosing if count == 0 => Some((container + 1, Stage::Choosing)),
            Stage::Choosing => {
                self.free_ended();
                self.choose(&uid).map(|chosen| (container, Stage::Chosen(chosen)))
            }
            // A stopped endpoint refuses without asking anybody.
            Stage::Chosen(chosen) => {
                let answers = !self.healthy.is_empty();
                answers.then_some((container, Stage::Answered(chosen)))
            }
            Stage::Answered(chosen) => {
                let pod = self.pod(&uid);
                for (id, serial) in &chosen {
                    pod.given.insert(*serial);
                    if pod.is_live() && !gpus.has_serial(*serial) {
                        breaches.push(format!("{uid} is given {id}, which was destroyed meanwhile"));
                    }
                }
                let ids = chosen.into_iter().map(|(id, _)| id).collect();
                self.entries.insert((uid.clone(), name), ids);
                Some((container, Stage::Entered))
            }
            Stage::Entered => {
                self.checkpoint = self.entries.clone();
                Some((container + 1, Stage::Choosing))
            }
        };
        match next {
            Some((container, stage)) => self.flight = Some(Flight { pod: uid, container, stage }),
            None => {
                let pod = self.pod(&uid);
                if pod.is_live() {
                    pod.life = Life::Ended;
                }
                self.flight = None;
            }
        }
        breaches
    }

    fn choose(&mut self, uid: &PodUid) -> Option<Vec<(DeviceId, u64)>> {
        let profile = self.pod(uid).profile;
        let free = |(id, (p, _)): &(&DeviceId, &(ProfileName, u64))| {
            *p == profile && !self.allocated.contains_key(*id)
        };
        let (id, (_, serial)) = self.healthy.iter().find(free)?;
        let chosen = (id.clone(), *serial);
        self.allocated.insert(chosen.0.clone(), uid.clone());
        Some(vec![chosen])
    }

    /// Kubelet starts anew: books from the checkpoint, nothing healthy, and who
    /// was being admitted is admitted again.
    pub(crate) fn restart(&mut self) {
        if let Some(Flight { pod, .. }) = self.flight.take() {
            self.pod(&pod).given.clear();
            self.checkpoint.retain(|(uid, _), _| *uid != pod);
        }
        self.entries = self.checkpoint.clone();
        self.rebuild();
        self.healthy.clear();
    }

    fn resource(id: &DeviceId) -> Device {
        let profile = id.0.rsplit('-').next().unwrap().split('@').next().unwrap();
        Device { resource: format!("nvidia.com/mig-{profile}"), id: id.clone() }
    }

    /// `GetAllocatableResources`.
    pub(crate) fn allocatable(&self) -> Vec<Device> {
        self.healthy.keys().map(Self::resource).collect()
    }

    /// `List`: no ordinary init containers, and active pods only.
    pub(crate) fn list(&mut self) -> Vec<Listed> {
        self.free_ended();
        let mut all = Vec::new();
        for pod in self.pods.iter().filter(|pod| pod.is_live()) {
            for (name, _, _) in pod.containers().into_iter().filter(|(_, init, _)| !init) {
                let ids = self.entries.get(&(pod.uid.clone(), name)).cloned().unwrap_or_default();
                all.push(Listed {
                    namespace: "team".to_owned(),
                    pod: pod.name.clone(),
                    container: name.to_owned(),
                    devices: ids.iter().map(Self::resource).collect(),
                });
            }
        }
        all
    }

    /// The checkpoint file.
    pub(crate) fn recorded(&self) -> Vec<Recorded> {
        let one = |((pod, container), ids): (&(PodUid, &'static str), &Vec<DeviceId>)| Recorded {
            pod: pod.clone(),
            container: (*container).to_owned(),
            devices: ids.iter().map(Self::resource).collect(),
        };
        self.checkpoint.iter().map(one).collect()
    }

    /// The pods as the API server lists them.
    pub(crate) fn api_pods(&self) -> Vec<Pod> {
        let one = |pod: &ThePod| Pod {
            uid: pod.uid.clone(),
            name: pod.name.clone(),
            life: if pod.is_live() { PodLife::Live } else { PodLife::Ended },
            is_plugin: false,
            containers: pod
                .containers()
                .into_iter()
                .map(|(name, _, count)| Container {
                    name: name.to_owned(),
                    asks: BTreeMap::from([(pod.profile.resource_name(), count)]),
                })
                .collect(),
        };
        let plugin = Pod {
            uid: PodUid("plugin".to_owned()),
            name: "plugin".to_owned(),
            life: PodLife::Live,
            is_plugin: true,
            containers: Vec::new(),
        };
        let there = (self.plugin != Plugin::Absent).then_some(plugin);
        self.pods.iter().filter(|pod| pod.life != Life::Deleted).map(one).chain(there).collect()
    }
}
