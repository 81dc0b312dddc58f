//! The cluster: up, down, and status.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::call::{call, call_with, succeeds};
use crate::engine::Engine;
use crate::fleet::{self, Gpus};
use crate::place::{Place, remove};
use crate::preflight;
use crate::progress::Progress;
use crate::waiting::{call_while_moving, wait_while_moving};
use crate::without_engine::machine::Machine;
use crate::without_engine::{node_image, own_engine};

/// The cluster's name, as kind and its containers have it.
pub const NAME: &str = "slicewright";

/// How long nothing in the cluster may move until kubectl or Helm, which wait
/// by themselves, are ended, in tenths of a second: longer than the hook of
/// `helm uninstall` waits for agents (165 s), and shorter than the pause
/// before a container that crashes is started again and again.
const STILL: u32 = 1800;

/// Longer than any of our waits: kubectl and Helm would give up after a time
/// of their own, whatever moves.
const NO_SOONER: &str = "--timeout=1h";

/// How often the rules of nodes are written anew until they are complete.
const ROUNDS: u32 = 5;

/// What [`Cluster::reading`] looks at beside nodes: what comes, goes, or gets
/// on while something is installed or removed.
const WHAT_RUNS: &str = "pods,jobs,deployments,statefulsets,daemonsets,namespaces";

/// How kind marks the containers of a cluster.
const MARK: &str = "io.x-k8s.kind.cluster=slicewright";

/// What a cluster is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The GPUs of each worker.
    pub workers: Vec<Gpus>,
}

/// The cluster as it is.
#[derive(Debug)]
pub struct Cluster<'a> {
    place: &'a Place,
    engine: Engine,
}

/// How the pieces stand.
#[derive(Debug, Default)]
pub struct Status {
    /// The engine, if one answers.
    pub engine: Option<String>,
    /// What the cluster was made of, if one was made.
    pub spec: Option<Spec>,
    /// The containers of its nodes.
    pub containers: Vec<String>,
    /// Its nodes, each with whether it is ready.
    pub nodes: BTreeMap<String, bool>,
    /// What is left of an interrupted run, if anything is.
    pub left: Vec<String>,
}

impl<'a> Cluster<'a> {
    /// Brings it up; one that runs with the same workers is kept.
    ///
    /// # Errors
    /// When something that it needs lacks, or a step fails. What was begun
    /// stays for a look; `down` removes it.
    pub fn up<W: Write>(
        place: &'a Place,
        spec: &Spec,
        own_image: bool,
        progress: &mut Progress<W>,
    ) -> anyhow::Result<Self> {
        preflight::cluster(place)?;
        if Engine::own(place).or_else(Engine::existing).is_none() {
            preflight::own_engine()?;
        }
        let engine = progress.step("the container engine", || Engine::find_or_start(place))?;
        progress.say(&engine.name())?;
        let cluster = Self { place, engine };
        let containers = cluster.engine.containers(MARK)?;
        if !containers.is_empty() {
            ensure!(
                place.cluster().exists(),
                "a kind cluster with the name {NAME} is there that {} knows nothing of: remove it with `kind delete \
                 cluster --name {NAME}`, or use the folder that made it (--folder)",
                place.folder().display()
            );
            if cluster.spec()?.as_ref() == Some(spec) && cluster.wait_ready().is_ok() {
                progress.say("the cluster runs already")?;
                return Ok(cluster);
            }
            progress.say("another or a half-dead cluster is there: it is removed first")?;
            cluster.delete()?;
        }
        let image = node_image::ensure(place, &cluster.engine, own_image, progress)?;
        remove(&place.loaded())?;
        // Before it is made: whatever becomes of that, `down` knows that it is ours.
        fs::write(place.cluster(), serde_json::to_vec_pretty(spec)?)
            .context("cannot write what the cluster is")?;
        // Kubelets change the machine, whoever's the engine is that they run on.
        let machine = Machine::default();
        machine.remember(&place.machine())?;
        machine.make_modules();
        progress.step(&format!("kind create cluster, {} workers", spec.workers.len()), || {
            let config = config(spec, &image);
            let mut kind = cluster.engine.inside(tools::find("kind")?);
            kind.args(["create", "cluster", "--name", NAME, "--config", "-", "--kubeconfig"]);
            call_with(kind.arg(place.kubeconfig()), config.as_bytes())
        })?;
        progress.step("every node is ready", || {
            if image.starts_with(node_image::OURS) {
                cluster.routes_to_all()?;
            }
            cluster.wait_ready()
        })?;
        Ok(cluster)
    }

    /// The one that runs.
    ///
    /// # Errors
    /// When none does.
    pub fn running(place: &'a Place) -> anyhow::Result<Self> {
        let engine = Engine::own(place).or_else(Engine::existing);
        let engine = engine.context("no cluster runs: bring one up with `cargo xtask kind up`")?;
        let cluster = Self { place, engine };
        if cluster.engine.containers(MARK)?.is_empty() || cluster.spec()?.is_none() {
            bail!("no cluster runs: bring one up with `cargo xtask kind up`");
        }
        Ok(cluster)
    }

    /// The containers of its nodes.
    ///
    /// # Errors
    /// When the engine does not say.
    pub fn containers(&self) -> anyhow::Result<Vec<String>> {
        self.engine.containers(MARK)
    }

    /// Its engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What it was made of.
    ///
    /// # Errors
    /// When that cannot be read.
    pub fn spec(&self) -> anyhow::Result<Option<Spec>> {
        spec(self.place)
    }

    /// A command that reaches it.
    #[must_use]
    pub fn inside(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.engine.inside(program);
        command.env("KUBECONFIG", self.place.kubeconfig());
        command
    }

    /// A kubectl that reaches it.
    ///
    /// # Errors
    /// When kubectl is not built.
    pub fn kubectl(&self) -> anyhow::Result<Command> {
        Ok(self.inside(tools::find("kubectl")?))
    }

    /// Restarts a worker, as a power cycle would.
    ///
    /// # Errors
    /// When the engine does not.
    pub fn restart(&self, node: &str) -> anyhow::Result<()> {
        call(self.engine.command().args(["restart", node]))?;
        // The routes were the kernel's, and went with it.
        self.routes_to_all()?;
        self.wait_ready()
    }

    /// Loads an archive of images into every node.
    ///
    /// # Errors
    /// When kind does not.
    pub fn load(&self, archive: &std::path::Path) -> anyhow::Result<()> {
        let mut kind = self.engine.inside(tools::find("kind")?);
        call(kind.args(["load", "image-archive", "--name", NAME]).arg(archive)).map(drop)
    }

    /// Replaces every kube-proxy, and its rules. Once an hour, and when it
    /// starts, a kube-proxy writes all of them; over those that are there, the
    /// entries that stay are lost (seen with 1.36.3 and the nft 1.0.6 of our
    /// node image), and with them the API server's address.
    ///
    /// # Errors
    /// When the rules of a node do not become complete.
    pub(crate) fn renew_proxies(&self) -> anyhow::Result<()> {
        // Other images may come without it, and nothing is known of theirs.
        let has_nft =
            |node: &String| succeeds(self.engine.command().args(["exec", node.as_str(), "nft", "--version"]));
        let mut lack = self.containers()?;
        lack.retain(has_nft);
        for _ in 0..ROUNDS {
            for node in &lack {
                // There may be none.
                let table = ["exec", node, "nft", "delete", "table", "ip", "kube-proxy"];
                let _ = call(self.engine.command().args(table));
                let field = format!("--field-selector=spec.nodeName={node}");
                let pods =
                    ["delete", "pods", "--namespace=kube-system", "--selector=k8s-app=kube-proxy", &field];
                call(self.kubectl()?.args(pods))?;
            }
            let complete = |node: &String| self.knows_the_api_server(node);
            let written = || {
                let rules = lack.iter().map(|node| self.rules(node).unwrap_or_default());
                self.reading() + &rules.collect::<String>()
            };
            let what = "the rules of every node";
            if wait_while_moving(what, 150, || lack.iter().all(complete), written).is_ok() {
                return Ok(());
            }
            lack.retain(|node| !self.knows_the_api_server(node));
        }
        bail!("kube-proxy does not write all of its rules on {}", lack.join(", "))
    }

    /// Whether the pods of a node reach the API server by its service.
    fn knows_the_api_server(&self, node: &str) -> bool {
        self.rules(node).is_ok_and(|map| map.contains("default/kubernetes/tcp/https"))
    }

    /// The services that kube-proxy has rules for on a node.
    fn rules(&self, node: &str) -> anyhow::Result<String> {
        let map = ["exec", node, "nft", "list", "map", "ip", "kube-proxy", "service-ips"];
        call(self.engine.command().args(map))
    }

    /// Waits until something has come about, for as long as a pod or a node of
    /// the cluster changes at least once in so many tenths of a second.
    ///
    /// # Errors
    /// When it has not, and nothing changes any more.
    pub(crate) fn wait(&self, what: &str, tenths: u32, is_so: impl FnMut() -> bool) -> anyhow::Result<()> {
        wait_while_moving(what, tenths, is_so, || self.reading())
    }

    /// Runs kubectl or Helm with a command that waits by itself, for as long
    /// as something moves in the cluster; what it printed.
    ///
    /// # Errors
    /// When it fails, or when nothing has moved for a while.
    pub(crate) fn waits(&self, command: &mut Command) -> anyhow::Result<String> {
        call_while_moving(command.arg(NO_SOONER), STILL, || self.reading())
    }

    /// How what runs and the nodes stand, as a text that changes when one does.
    /// Heartbeats are not in it: of a node there is what others write, and how
    /// its conditions stand.
    fn reading(&self) -> String {
        let ask = |args: &[&str]| {
            // Who does not answer does not move.
            let said = self.kubectl().and_then(|mut kubectl| call(kubectl.arg("get").args(args)));
            said.unwrap_or_else(|error| format!("{error:#}"))
        };
        let pods =
            r#"--output=jsonpath={range .items[*]}{.metadata.uid} {.metadata.resourceVersion}{"\n"}{end}"#;
        let nodes = r#"--output=jsonpath={range .items[*]}{.metadata.labels} {.metadata.annotations} {.spec} {.status.allocatable} {.status.conditions[*].status}{"\n"}{end}"#;
        ask(&[WHAT_RUNS, "--all-namespaces", pods]) + &ask(&["nodes", nodes])
    }

    fn wait_ready(&self) -> anyhow::Result<()> {
        self.waits(self.kubectl()?.args(["wait", "--for=condition=Ready", "nodes", "--all"])).map(drop)
    }

    /// The same once every node has its range, which the controller manager
    /// gives to each when it has registered.
    fn routes_to_all(&self) -> anyhow::Result<()> {
        let mut lacks = String::new();
        let waited = self.wait("a range of addresses for the pods of every node", 600, || {
            self.routes().map_err(|error| lacks = format!("{error:#}")).is_ok()
        });
        waited.with_context(|| format!("at the end: {lacks}"))
    }

    /// What kind's network daemon would do: on each node, a route to the pods
    /// of every other.
    fn routes(&self) -> anyhow::Result<()> {
        let format = r#"jsonpath={range .items[*]}{.metadata.name} {.spec.podCIDR} {.status.addresses[?(@.type=="InternalIP")].address}{"\n"}{end}"#;
        let said = call(self.kubectl()?.args(["get", "nodes", "-o", format]))?;
        for [node, range, address] in routes(&said)? {
            let route = ["exec", node, "ip", "route", "replace", range, "via", address];
            call(self.engine.command().args(route))?;
        }
        Ok(())
    }

    fn delete(&self) -> anyhow::Result<()> {
        let mut kind = self.engine.inside(tools::find("kind")?);
        call(kind.args(["delete", "cluster", "--name", NAME, "--kubeconfig"]).arg(self.place.kubeconfig()))?;
        let left = self.engine.containers(MARK)?;
        if !left.is_empty() {
            call(self.engine.command().args(["rm", "--force", "--volumes"]).args(&left))?;
        }
        remove(&self.place.kubeconfig())?;
        remove(&self.place.cluster())
    }
}

fn spec(place: &Place) -> anyhow::Result<Option<Spec>> {
    match fs::read(place.cluster()) {
        Ok(text) => Ok(serde_json::from_slice(&text).ok()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", place.cluster().display())),
    }
}

/// Removes the cluster and everything that was made for it, however far it
/// came, and puts the machine back. What was put back, for people.
///
/// # Errors
/// When something cannot be removed.
pub fn down<W: Write>(place: &Place, progress: &mut Progress<W>) -> anyhow::Result<()> {
    let ours = Engine::own(place);
    if let Some(engine) = ours.clone().or_else(Engine::existing) {
        let cluster = Cluster { place, engine };
        if place.cluster().exists() && !cluster.engine.containers(MARK)?.is_empty() {
            let deleted = progress.step("deleting the cluster", || cluster.delete());
            // With an engine of our own everything goes with it anyhow.
            if ours.is_none() {
                deleted?;
            }
        }
    }
    let restored = if place.engine().exists() {
        progress.step("ending the container engine", || own_engine::stop(place))?
    } else {
        Machine::default().restore(&place.machine())?
    };
    for line in restored {
        progress.say(&line)?;
    }
    for file in [place.kubeconfig(), place.cluster(), place.loaded(), place.folder().join("scratch")] {
        remove(&file)?;
    }
    progress.say("nothing of the cluster is left; node images are kept for the next one")?;
    Ok(())
}

/// How everything stands. It changes nothing.
///
/// # Errors
/// When something that is there cannot be read.
pub fn status(place: &Place) -> anyhow::Result<Status> {
    let mut status = Status { spec: spec(place)?, ..Status::default() };
    let Some(engine) = Engine::own(place).or_else(Engine::existing) else {
        if place.engine().exists() {
            status.left.push("an engine of ours that does not answer".to_owned());
        } else if place.machine().exists() {
            status.left.push("what kubelets set for the whole machine".to_owned());
        }
        return Ok(status);
    };
    status.engine = Some(engine.name());
    if status.spec.is_some() {
        status.containers = engine.containers(MARK)?;
    }
    if status.containers.is_empty() {
        return Ok(status);
    }
    let cluster = Cluster { place, engine };
    let format = r#"jsonpath={range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}"#;
    match call(cluster.kubectl()?.args(["--request-timeout=10s", "get", "nodes", "-o", format])) {
        Ok(said) => status.nodes = readiness(&said),
        Err(_) => status.left.push("containers of a cluster whose API server does not answer".to_owned()),
    }
    Ok(status)
}

/// From the name, the range of pods' addresses and the address of each node, a line each: on which node the
/// route to which range goes by which address. Nothing is routed unless everything is known.
fn routes(said: &str) -> anyhow::Result<Vec<[&str; 3]>> {
    let mut nodes = Vec::new();
    for line in said.lines() {
        let [name, range, address] = line.split(' ').collect::<Vec<_>>()[..] else {
            bail!("kubectl says {line:?} of a node, and not its name, range and address");
        };
        ensure!(!range.is_empty(), "the node {name} has no range of addresses for its pods");
        ensure!(!address.is_empty(), "the node {name} has no address");
        nodes.push((name, range, address));
    }
    let pairs = nodes.iter().flat_map(|node| nodes.iter().map(move |other| (node, other)));
    let others = pairs.filter(|(node, other)| node.0 != other.0);
    Ok(others.map(|((node, ..), (_, range, address))| [*node, *range, *address]).collect())
}

/// From the name of each node and the status of its condition, a line each: whether it is ready.
fn readiness(said: &str) -> BTreeMap<String, bool> {
    let nodes = said.lines().filter_map(|line| line.split_once(' '));
    nodes.map(|(name, ready)| (name.to_owned(), ready == "True")).collect()
}

/// What kind is told. Kubelets look at their pods' maps every ten seconds
/// instead of every minute: a layout under a new name is there as soon.
fn config(spec: &Spec, image: &str) -> String {
    let mut text = format!(
        "kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
networking:
  kubeProxyMode: nftables
kubeadmConfigPatches:
- |
  kind: KubeletConfiguration
  apiVersion: kubelet.config.k8s.io/v1beta1
  failCgroupV1: false
  syncFrequency: 10s
nodes:
- {{role: control-plane, image: \"{image}\"}}
"
    );
    for gpus in &spec.workers {
        text.push_str(&format!(
            "- role: worker\n  image: \"{image}\"\n  labels:\n    {}: \"{gpus}\"\n",
            fleet::LABEL
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_says_which_gpus_it_gets() {
        let spec = Spec { workers: fleet::usual() };
        let text = config(&spec, "node:1");
        assert!(text.contains("- {role: control-plane, image: \"node:1\"}\n- role: worker\n"), "{text}");
        assert_eq!(text.matches("sim.slicewright.io/gpus: \"").count(), 4);
    }

    #[test]
    fn a_worker_is_asked_for_with_its_label_and_the_image_of_all() {
        let spec = Spec { workers: vec!["8xH100-80GB".parse().unwrap()] };
        let text = config(&spec, "localhost/node:1");
        let (_, nodes) = text.split_once("nodes:\n").unwrap();
        assert_eq!(
            nodes,
            "- {role: control-plane, image: \"localhost/node:1\"}\n- role: worker\n  image: \"localhost/node:1\"\n  \
             labels:\n    sim.slicewright.io/gpus: \"8xH100-80GB\"\n"
        );
    }

    #[test]
    fn every_node_has_a_route_to_the_pods_of_every_other() {
        let said = "cp 10.244.0.0/24 172.31.0.2\na 10.244.1.0/24 172.31.0.3\nb 10.244.2.0/24 172.31.0.4\n";
        assert_eq!(
            routes(said).unwrap(),
            [
                ["cp", "10.244.1.0/24", "172.31.0.3"],
                ["cp", "10.244.2.0/24", "172.31.0.4"],
                ["a", "10.244.0.0/24", "172.31.0.2"],
                ["a", "10.244.2.0/24", "172.31.0.4"],
                ["b", "10.244.0.0/24", "172.31.0.2"],
                ["b", "10.244.1.0/24", "172.31.0.3"],
            ]
        );
    }

    #[test]
    fn a_node_about_which_something_is_unknown_is_named_and_nothing_is_routed() {
        let error = |said: &str| routes(said).unwrap_err().to_string();
        let whole = "cp 10.244.0.0/24 172.31.0.2\n";
        assert_eq!(
            error(&format!("{whole}a  172.31.0.3\n")),
            "the node a has no range of addresses for its pods"
        );
        assert_eq!(error(&format!("{whole}a 10.244.1.0/24 \n")), "the node a has no address");
        assert_eq!(
            error(&format!("{whole}a\n")),
            "kubectl says \"a\" of a node, and not its name, range and address"
        );
    }

    #[test]
    fn a_node_that_says_nothing_of_itself_is_not_ready() {
        let nodes = readiness("cp True\na False\nb Unknown\nc \n");
        let ready: Vec<_> =
            nodes.iter().filter(|(_, ready)| **ready).map(|(name, _)| name.as_str()).collect();
        assert_eq!((ready, nodes.len()), (vec!["cp"], 4));
    }

    #[test]
    fn what_a_cluster_was_made_of_is_read_again_and_a_damaged_note_is_no_cluster() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::at(dir.path()).unwrap();
        let made = Spec { workers: fleet::usual() };
        fs::write(place.cluster(), serde_json::to_vec_pretty(&made).unwrap()).unwrap();
        assert_eq!(spec(&place).unwrap(), Some(made));
        for damaged in ["", "{", r#"{"workers": ["0xA30"]}"#] {
            fs::write(place.cluster(), damaged).unwrap();
            assert_eq!(spec(&place).unwrap(), None, "{damaged}");
        }
    }

    #[test]
    fn without_anything_the_status_is_empty_and_down_does_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::at(dir.path()).unwrap();
        assert_eq!(status(&place).unwrap().spec, None);
        let mut told = Vec::new();
        down(&place, &mut Progress::new(&mut told)).unwrap();
        assert!(String::from_utf8(told).unwrap().contains("nothing of the cluster is left"));
    }
}
