//! What an agent finds beside a virtual node: its machine's GPUs, and a stand-in for its kubelet. Both follow the
//! virtual node.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cluster::{Given, Handle};
use kube::ResourceExt;
use sim_kubelet::{Books, Container, Kubelet};
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// How often the stand-ins follow the virtual node.
const FOLLOWED_EVERY: Duration = Duration::from_millis(50);

/// What an agent finds on a virtual node: the driver's files, and a stand-in for kubelet. Agents come and go beside it.
pub(crate) struct Fixture {
    folder: TempDir,
    pub(crate) kubelet: Arc<Kubelet>,
    follows: JoinHandle<()>,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.follows.abort();
    }
}

impl Fixture {
    pub(crate) fn start(simulator: &Handle, node: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        simulator.share_gpus(node, &folder.path().join("gpus"))?;
        let kubelet = Arc::new(Kubelet::start(folder.path(), Books::default())?);
        let boot = folder.path().join("boot_id");
        std::fs::write(&boot, simulator.books(node)?.boot_id)?;
        let follower = Follower {
            simulator: simulator.clone(),
            node: node.to_owned(),
            boot,
            kubelet: Arc::clone(&kubelet),
        };
        Ok(Self { folder, kubelet, follows: tokio::spawn(follower.follow()) })
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Keeps kubelet's stand-in as the kubelet of the virtual node is.
struct Follower {
    simulator: Handle,
    node: String,
    boot: PathBuf,
    kubelet: Arc<Kubelet>,
}

impl Follower {
    async fn follow(self) {
        let mut tick = tokio::time::interval(FOLLOWED_EVERY);
        let (mut last, mut lists) = (None, 0);
        // Kubelet lists a pod before it writes it into its checkpoint: here it does so one tick before.
        let (mut entered, mut recorded) = (BTreeSet::new(), BTreeSet::new());
        loop {
            tick.tick().await;
            let asked = self.kubelet.calls().list;
            if std::mem::replace(&mut lists, asked) != asked && self.simulator.listed(&self.node).is_err() {
                return;
            }
            let Ok(now) = self.simulator.books(&self.node) else { return };
            let listed: BTreeSet<String> = now.pods.iter().filter_map(|given| given.object.uid()).collect();
            if last.as_ref() == Some(&now) && recorded == listed {
                continue;
            }
            // One moment of the engine: whoever was given a device while there were any is in it.
            let is_recorded = |given: &Given| given.object.uid().is_some_and(|uid| entered.contains(&uid));
            let pods = now.pods.iter().map(|given| entry(given, is_recorded(given))).collect();
            let healthy = now.healthy.clone();
            let told = self.kubelet.update(|books| *books = Books { healthy, pods, ..Books::default() });
            if told.is_ok() && std::fs::write(&self.boot, &now.boot_id).is_ok() {
                recorded = entered.intersection(&listed).cloned().collect();
                (last, entered) = (Some(now), listed);
            }
        }
    }
}

/// A pod as kubelet's books have it: each container with as many devices as it asks for.
fn entry(given: &Given, recorded: bool) -> sim_kubelet::Pod {
    let Given { object, devices } = given;
    let mut left: BTreeMap<_, _> = devices.iter().map(|(resource, ids)| (resource, ids.iter())).collect();
    let spec = object.spec.as_ref();
    let init = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten()).map(|one| (one, true));
    let all = init.chain(spec.into_iter().flat_map(|spec| &spec.containers).map(|one| (one, false)));
    let container = |(container, init): (&k8s_openapi::api::core::v1::Container, bool)| {
        let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        let mut mine: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (resource, n) in limits.into_iter().flatten() {
            let count = n.0.parse().unwrap_or(0);
            let ids: BTreeSet<_> =
                left.get_mut(resource).into_iter().flatten().take(count).cloned().collect();
            if !ids.is_empty() {
                mine.insert(resource.clone(), ids);
            }
        }
        Container { name: container.name.clone(), init, recorded, devices: mine }
    };
    sim_kubelet::Pod {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        ended: false,
        containers: all.map(container).filter(|one| !one.devices.is_empty()).collect(),
    }
}
