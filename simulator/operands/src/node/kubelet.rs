//! The kubelet: admits pods, gives them devices, starts them.

use std::collections::{BTreeMap, BTreeSet};

use gpu::{Activity, Client, Share, Target};
use jiff::{SignedDuration, Timestamp};
use mig::resource::GpuResource;

use crate::change::What;
use crate::devices;
use crate::fault::NodeFault;
use crate::operand::Operand;
use crate::pod::{Admission, Opens, Pod, PodName, PodPhase, PodSpec};
use crate::sharing;

use super::{Node, Task};

impl Node {
    /// The scheduler binds a pod to the node. The kubelet admits it and gives
    /// it devices, or refuses it. A pod of the same name replaces one that
    /// failed.
    pub fn bind(&mut self, spec: PodSpec) -> &PodPhase {
        let starts = self.setup.timings.pod_starts;
        self.bind_late(spec, starts)
    }

    /// As [`Node::bind`], for a pod that takes so long to start: its image is
    /// large, or a volume is slow. It holds its devices meanwhile.
    pub fn bind_late(&mut self, spec: PodSpec, starts: SignedDuration) -> &PodPhase {
        let name = spec.name.clone();
        self.end(&name);
        if !spec.requests.is_empty() {
            self.free_ended(false);
        }
        let (phase, devices) = match self.admit(&spec) {
            Ok(devices) => (PodPhase::Starting, devices),
            Err((reason, message)) => (PodPhase::Failed { reason, message }, BTreeMap::new()),
        };
        let (answers, entered) = (self.setup.timings.plugin_answers, self.books_entered_after());
        let is_asked = !devices.is_empty() && answers + entered > SignedDuration::ZERO;
        if phase == PodPhase::Starting {
            let wait = if is_asked { answers + entered + starts } else { starts };
            self.queue.push((self.now + wait, Task::PodRuns(name.clone(), self.now)));
        }
        if is_asked {
            self.queue.push((self.now + answers, Task::PluginAnswers(name.clone(), self.now)));
        }
        self.changed(What::Pod { name: name.clone(), phase: phase.clone() });
        let admission = if is_asked { Admission::Chosen } else { Admission::Entered };
        self.note_shared_unawares(&name, &devices);
        let pod =
            Pod { spec, bound: self.now, phase, devices, admission, forgotten: false, clients: Vec::new() };
        self.pods.insert(name.clone(), pod);
        self.refresh_allocations();
        &self.pods[&name].phase
    }

    /// How long after the plugin's answer the kubelet enters what it gave into its books.
    fn books_entered_after(&self) -> SignedDuration {
        let lag = self.faults.iter().rev().find_map(|fault| match fault {
            NodeFault::BooksLag(lag) => Some(*lag),
            _ => None,
        });
        self.setup.timings.books_entered + lag.unwrap_or_default()
    }

    /// Notes who has a device that one of two pods was to have for itself: an id
    /// without a number is the whole device, whatever other ids there are of it.
    fn note_shared_unawares(&mut self, name: &PodName, devices: &BTreeMap<String, Vec<String>>) {
        for id in devices.values().flatten() {
            let others = self.pods.iter().filter(|(_, pod)| pod.holds());
            let others =
                others.flat_map(|(other, pod)| pod.devices.values().flatten().map(move |id| (other, id)));
            let is_whole = |id: &str| !id.contains("::");
            let same =
                |had: &&String| sharing::uuid(had) == sharing::uuid(id) && (is_whole(had) || is_whole(id));
            let found: Vec<_> = others.filter(|(_, had)| same(had)).map(|(other, _)| other.clone()).collect();
            let (at, device) = (self.now, sharing::uuid(id).to_owned());
            let is_forgotten = |first: &PodName| self.pods.get(first).is_some_and(|pod| pod.forgotten);
            let shared = found.into_iter().map(|first| sharing::SharedUnawares {
                at,
                device: device.clone(),
                forgotten: is_forgotten(&first),
                first,
                second: name.clone(),
            });
            let shared: Vec<_> = shared.collect();
            self.shared_unawares.extend(shared);
        }
    }

    /// Which devices the pod gets: of those that nobody has, the first by
    /// UUID. The real kubelet's choice is as blind to placement as this.
    fn admit(&self, spec: &PodSpec) -> Result<BTreeMap<String, Vec<String>>, (String, String)> {
        let mut given = BTreeMap::new();
        for (resource, wanted) in spec.requests.iter().filter(|(_, n)| **n > 0) {
            // Network cards of NVIDIA's have the same prefix. Of these the scheduler
            // counts, and which one a pod gets is of no account here.
            if !GpuResource::is_one(resource) {
                continue;
            }
            let has: BTreeSet<&String> = self
                .pods
                .values()
                .filter(|pod| pod.holds() && !pod.forgotten)
                .flat_map(|pod| pod.devices.values().flatten())
                .collect();
            let holders = self.pods.values().filter(|pod| pod.holds());
            let used: usize = holders.filter_map(|pod| pod.devices.get(resource)).map(Vec::len).sum();
            let mut free: Vec<&String> = self.registered.get(resource).into_iter().flatten().collect();
            free.retain(|id| !has.contains(id) && !self.unhealthy.contains(sharing::uuid(id)));
            // Of shared devices the plugin prefers those that fewest have, by the ids that it offers
            // now: who got a device under another configuration counts as nobody.
            let offered: BTreeSet<&String> = self.registered.get(resource).into_iter().flatten().collect();
            let sharers = |id: &str| {
                let same = |has: &&&String| sharing::uuid(has) == sharing::uuid(id) && offered.contains(*has);
                has.iter().filter(same).count()
            };
            free.sort_by_key(|id| (sharers(id), *id));
            let shared =
                self.registered.get(resource).is_some_and(|ids| ids.iter().any(|id| id.contains("::")));
            let one_each = self.active(Operand::DevicePlugin).sharing.is_some_and(|sharing| sharing.one_each);
            if shared && one_each && *wanted > 1 {
                let message = format!(
                    "Allocate failed due to request for '{resource}: {wanted}' too large: maximum request size for \
                     shared resources is 1, which is unexpected"
                );
                return Err(("UnexpectedAdmissionError".to_owned(), message));
            }
            let published = self.allocatable.get(resource).copied().unwrap_or(0);
            let wanted_here = usize::try_from(*wanted).unwrap_or(usize::MAX);
            // The device manager allocates before the node's amounts are compared: as long as it
            // knows the resource (five minutes after its plugin has gone it does not), it is the
            // one that refuses.
            let is_known = self.capacity.get(resource).is_some_and(|count| *count > 0);
            if is_known && free.len() < wanted_here {
                let message = format!(
                    "Allocate failed due to requested number of devices unavailable for {resource}. \
                     Requested: {wanted}, Available: {}, which is unexpected",
                    free.len()
                );
                return Err(("UnexpectedAdmissionError".to_owned(), message));
            }
            if published < *wanted || free.len() < wanted_here {
                let message = format!(
                    "Node didn't have enough resource: {resource}, requested: {wanted}, used: {used}, capacity: {published}"
                );
                return Err((format!("OutOf{resource}"), message));
            }
            given.insert(resource.clone(), free.into_iter().take(wanted_here).cloned().collect());
        }
        Ok(given)
    }

    /// The plugin has said how the devices that were chosen come into the
    /// container. Only afterwards the kubelet enters them.
    pub(crate) fn plugin_answers(&mut self, name: &PodName, bound: Timestamp) {
        let at = self.now + self.books_entered_after();
        let pod = self.pods.get_mut(name).filter(|pod| pod.bound == bound && pod.holds());
        if let Some(pod) = pod.filter(|pod| pod.admission == Admission::Chosen) {
            pod.admission = Admission::Answered;
            self.queue.push((at, Task::BooksEntered(name.clone(), bound)));
        }
    }

    pub(crate) fn books_entered(&mut self, name: &PodName, bound: Timestamp) {
        let pod = self.pods.get_mut(name).filter(|pod| pod.bound == bound);
        if let Some(pod) = pod.filter(|pod| pod.admission == Admission::Answered) {
            pod.admission = Admission::Entered;
        }
    }

    /// The kubelet is asked for its `List`. Like an allocation, it frees the devices of pods that have ended; amid an
    /// allocation it may forget what is chosen, where a fault says that it is such a kubelet.
    pub fn list(&mut self) {
        self.free_ended(self.has_fault(&NodeFault::ListForgets));
    }

    /// If there are devices of ended pods, who has what is made anew from the books: what is chosen and not entered yet may
    /// be forgotten, and stays so after it is entered, until devices are freed again.
    fn free_ended(&mut self, forgets: bool) {
        if std::mem::take(&mut self.is_to_free) {
            for pod in self.pods.values_mut().filter(|pod| pod.holds()) {
                pod.forgotten = pod.admission != Admission::Entered && (pod.forgotten || forgets);
            }
        }
    }

    /// The plugin's stream has ended: whoever waits for its answer is refused.
    pub(crate) fn plugin_does_not_answer(&mut self) {
        self.refuse(
            |pod| pod.admission == Admission::Chosen,
            "Allocate failed due to can't allocate unregistered device, which is unexpected",
        );
    }

    /// The kubelet's process starts anew. It knows from its checkpoint who has what, and nothing is healthy until the
    /// plugin has registered again. Whoever runs is left alone; whoever does not run yet is admitted anew, and refused.
    pub(crate) fn kubelet_restarts(&mut self) {
        if !self.ready {
            return;
        }
        self.registered.clear();
        self.refuse(
            |pod| pod.phase == PodPhase::Starting && !pod.devices.is_empty(),
            "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices, which is unexpected",
        );
        let plugin = self.operands.get(&Operand::DevicePlugin).filter(|plugin| plugin.is_ready());
        if let Some(serial) = plugin.map(|plugin| plugin.serial) {
            let at = self.now + self.setup.timings.register_step;
            self.queue.push((at, Task::PluginLooks(serial)));
        }
    }

    /// Pods that hold something, and do not get it after all.
    fn refuse(&mut self, is_refused: impl Fn(&Pod) -> bool, message: &str) {
        let refused = self.pods.iter().filter(|(_, pod)| pod.holds() && is_refused(pod));
        let names: Vec<_> = refused.map(|(name, _)| name.clone()).collect();
        for name in names {
            let Some(mut pod) = self.pods.remove(&name) else { continue };
            self.release(&pod);
            pod.devices.clear();
            pod.phase = PodPhase::Failed {
                reason: "UnexpectedAdmissionError".to_owned(),
                message: message.to_owned(),
            };
            self.changed(What::Pod { name: name.clone(), phase: pod.phase.clone() });
            self.pods.insert(name, pod);
        }
        self.refresh_allocations();
    }

    /// A pod is gone: it ended, or was deleted or evicted and has stopped.
    /// Its devices are free. One that is not there stays so.
    pub fn end(&mut self, name: &PodName) -> Option<Pod> {
        let pod = self.pods.remove(name)?;
        for client in &pod.clients {
            self.machine.close(*client);
        }
        self.release(&pod);
        self.is_to_free |= !pod.devices.is_empty();
        // Who shared a device with it has it still.
        self.refresh_allocations();
        Some(pod)
    }

    fn release(&mut self, pod: &Pod) {
        for uuid in pod.devices.values().flatten() {
            if let Some(share) = devices::share(&self.machine, uuid) {
                self.machine.release(share);
            }
        }
    }

    /// Writes the kubelet's book into the hardware's: a slice that was cut
    /// anew at the same place has the same UUID, and is the pod's again.
    pub(crate) fn refresh_allocations(&mut self) {
        for pod in self.pods.values().filter(|pod| pod.holds()) {
            for uuid in pod.devices.values().flatten() {
                if let Some(share) = devices::share(&self.machine, uuid) {
                    // Somebody else has it only if two pods were given one device.
                    let _ = self.machine.allocate(share, &pod.spec.name.to_string());
                }
            }
        }
    }

    pub(crate) fn pod_runs(&mut self, name: &PodName, bound: Timestamp) {
        let Some(pod) = self.pods.get_mut(name).filter(|pod| pod.bound == bound) else { return };
        if pod.phase != PodPhase::Starting || !self.ready {
            return;
        }
        pod.phase = PodPhase::Running;
        let opens = pod.spec.opens;
        self.changed(What::Pod { name: name.clone(), phase: PodPhase::Running });
        match opens {
            Opens::Never => {}
            Opens::AtOnce => self.pod_opens(name, bound),
            Opens::After(wait) => self.queue.push((self.now + wait, Task::PodOpens(name.clone(), bound))),
        }
    }

    /// The pod's process opens its devices; one that is no longer there, or
    /// does not answer, it cannot.
    pub(crate) fn pod_opens(&mut self, name: &PodName, bound: Timestamp) {
        let Some(pod) = self.pods.get(name).filter(|pod| pod.bound == bound) else { return };
        if pod.phase != PodPhase::Running || pod.has_open() {
            return;
        }
        let mut clients = Vec::new();
        for uuid in pod.devices.values().flatten() {
            let target = match devices::share(&self.machine, uuid) {
                Some(Share::Gpu(gpu)) => Target::Gpu(gpu),
                Some(Share::Slice(gpu, gi)) => Target::ComputeInstance(gpu, gi, 0),
                None => continue,
            };
            let (pid, process) = (1, name.to_string());
            let client = Client { pid, name: process, target, activity: Activity::Computes, memory_mib: 0 };
            clients.extend(self.machine.open(client));
        }
        if let Some(pod) = self.pods.get_mut(name) {
            pod.clients = clients;
        }
    }

    /// A pod's process opens its devices now, whatever was said before.
    pub fn open(&mut self, name: &PodName) {
        if let Some(bound) = self.pods.get(name).map(|pod| pod.bound) {
            self.pod_opens(name, bound);
        }
    }

    /// A pod's processes close what they have open. The pod keeps its devices.
    pub fn close(&mut self, name: &PodName) {
        for client in self.pods.get_mut(name).map(|pod| std::mem::take(&mut pod.clients)).unwrap_or_default()
        {
            self.machine.close(client);
        }
    }

    /// After a boot no plugin has registered yet: the kubelet cannot admit
    /// again what has devices. Other pods start anew.
    pub(crate) fn pods_after_boot(&mut self) {
        for name in self.pods.keys().cloned().collect::<Vec<_>>() {
            let now = self.now;
            let Some(pod) = self.pods.get_mut(&name).filter(|pod| pod.holds()) else { continue };
            if pod.devices.is_empty() {
                pod.phase = PodPhase::Starting;
                pod.bound = now;
                self.queue.push((now + self.setup.timings.pod_starts, Task::PodRuns(name.clone(), now)));
            } else {
                pod.devices.clear();
                pod.phase = PodPhase::Failed {
                    reason: "UnexpectedAdmissionError".to_owned(),
                    message: "the node rebooted, and no device plugin serves the pod's devices yet"
                        .to_owned(),
                };
            }
            let phase = pod.phase.clone();
            self.changed(What::Pod { name, phase });
        }
    }
}
