//! A node with its agent, and what people read of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use api::gpu_node::{GpuNodeStatus, ObservedGpu, ObservedSlice};
use api::node_agent::Holder;
use gpu::Machine;
use sim_kubelet::{Books, Container, Kubelet, Pod};
use store::Store;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::api_server::ApiServer;
use crate::node;

/// Longer than anything here takes, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Scene {
    pub(crate) api: ApiServer,
    pub(crate) kubelet: Kubelet,
    pub(crate) store: Store,
    pub(crate) folder: TempDir,
    devices: BTreeMap<String, String>,
    agents: usize,
    agent: Option<Child>,
    /// Whether agents answer kubelet's probes.
    pub(crate) has_probes: bool,
}

impl Scene {
    /// The node with its plugin, and nobody on it.
    pub(crate) async fn new() -> Self {
        Self::of(node::machine()).await
    }

    /// A node with these GPUs and its plugin, and nobody on it.
    pub(crate) async fn of(machine: Machine) -> Self {
        let scene = Self::with(machine.clone(), &library()).await;
        scene.plugin_of(&machine);
        scene
    }

    /// The node over the GPUs of this machine; kubelet offers nothing yet.
    pub(crate) async fn over_hardware(library: &Path) -> Self {
        Self::with(node::machine(), library).await
    }

    async fn with(machine: Machine, library: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let devices = node::devices(&machine);
        let store = node::create(&folder.path().join("gpus"), machine);
        let kubelet = Kubelet::start(folder.path(), Books::default()).unwrap();
        std::fs::write(folder.path().join("boot_id"), "boot-1\n").unwrap();
        let libraries = folder.path().join("driver/usr/lib64");
        std::fs::create_dir_all(&libraries).unwrap();
        std::os::unix::fs::symlink(library, libraries.join("libnvidia-ml.so.1")).unwrap();
        let api = ApiServer::start("gpu-7").await;
        Self { api, kubelet, store, folder, devices, agents: 0, agent: None, has_probes: false }
    }

    /// The plugin registers what the GPUs had when nobody had changed them.
    pub(crate) fn plugin(&self) {
        self.plugin_of(&node::machine());
    }

    /// An administrator has given the slices of this profile another name in the plugin's configuration.
    pub(crate) fn plugin_renames(&self, profile: &str, name: &str) {
        let slices = |books: &mut Books| {
            let slices = books.healthy.remove(&format!("nvidia.com/mig-{profile}")).unwrap();
            books.healthy.insert(name.to_owned(), slices);
        };
        self.kubelet.update(slices).unwrap();
    }

    /// The plugin starts, and registers what the GPUs have; one that runs with that stays.
    pub(crate) fn plugin_of(&self, machine: &Machine) {
        let devices = node::devices(machine);
        let mut healthy: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, id) in &devices {
            let is_cut = devices.keys().any(|other| other.starts_with(&format!("{name}:")));
            if name.contains(':') || !is_cut {
                healthy.entry(resource(name)).or_default().insert(id.clone());
            }
        }
        self.kubelet.update(|books| books.healthy = healthy).unwrap();
    }

    /// The GPUs as they are.
    pub(crate) fn machine(&self) -> Machine {
        self.store.read(|state| state.machine.clone()).unwrap()
    }

    /// What happens, unless it takes too long.
    pub(crate) async fn patiently<T>(&self, happens: impl Future<Output = T>) -> T {
        match tokio::time::timeout(PATIENCE, happens).await {
            Ok(what) => what,
            Err(_) => panic!("{:#?}\n{:#?}\n{}", told(&self.status()), self.status().agent, self.log()),
        }
    }

    /// The id of a device by its name, such as `1:2g.20gb@4`.
    pub(crate) fn id(&self, name: &str) -> &str {
        &self.devices[name]
    }

    /// A container that has this slice.
    pub(crate) fn container(&self, name: &str, device: &str) -> Container {
        Container::new(name, &resource(device), &[self.id(device)])
    }

    /// Kubelet gives a device to a pod.
    pub(crate) fn gives(&self, namespace: &str, pod: &str, device: &str) {
        let pod = Pod::new(namespace, pod, &resource(device), &[self.id(device)]);
        self.kubelet.update(|books| books.pods.push(pod)).unwrap();
    }

    /// Starts the agent, a new pod each time.
    pub(crate) fn agent(&mut self) {
        self.agent_with(&[]);
    }

    pub(crate) fn agent_with(&mut self, flags: &[&str]) {
        self.agents += 1;
        let kubeconfig = self.folder.path().join("kubeconfig");
        let cluster = format!("{{name: c, cluster: {{server: 'http://{}'}}}}", self.api.address);
        let text = format!(
            "{{apiVersion: v1, kind: Config, clusters: [{cluster}], users: [{{name: u, user: {{}}}}], \
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}], current-context: x}}"
        );
        std::fs::write(&kubeconfig, text).unwrap();
        let log = std::fs::File::options().create(true).append(true).open(self.log_path()).unwrap();
        let path = |path: PathBuf| path.display().to_string();
        let child = Command::new(program())
            .env_clear()
            .env(store::DIRECTORY_VARIABLE, self.folder.path().join("gpus"))
            .env("SLICEWRIGHT_SIM_PRIVILEGED", "1")
            .args(["--node-name", "gpu-7", "--log-format", "text"])
            .args(["--health-address", if self.has_probes { "127.0.0.1:0" } else { "none" }])
            .args(["--log", "info,node_agent=debug", "--settle", "10ms"])
            .args(["--pod-uid", &format!("agent-{}", self.agents)])
            .args(["--kubeconfig", &path(kubeconfig)])
            .args(["--boot-id-file", &path(self.folder.path().join("boot_id"))])
            .args(["--pod-resources-socket", &path(self.kubelet.socket())])
            .args(["--checkpoint", &path(self.kubelet.checkpoint())])
            .args(["--driver-root", &path(self.folder.path().join("driver"))])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        self.agent = Some(child);
    }

    /// Whoever runs an agent now has it: another one can be started beside it.
    pub(crate) fn leave_agent(&mut self) -> Child {
        self.agent.take().unwrap()
    }

    /// Kills the agent at whatever it is.
    pub(crate) async fn agent_dies(&mut self) {
        self.agent.take().unwrap().kill().await.unwrap();
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("agent.log")
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    pub(crate) fn status(&self) -> GpuNodeStatus {
        self.api.node().status.unwrap_or_default()
    }

    /// Waits until the status is so.
    #[track_caller]
    pub(crate) fn until<'a>(
        &'a self,
        what: &'a str,
        so: impl Fn(&GpuNodeStatus) -> bool + 'a,
    ) -> impl Future<Output = GpuNodeStatus> + 'a {
        let place = std::panic::Location::caller();
        async move {
            let mut changes = self.api.changes();
            let wait = changes.wait_for(|_| so(&self.status()));
            let came = tokio::time::timeout(PATIENCE, wait).await.is_ok();
            assert!(came, "{place}: {what}\n{:#?}\n{}", told(&self.status()), self.log());
            self.status()
        }
    }

    /// Waits for a report in which the lines about GPUs that are cut are these.
    #[track_caller]
    pub(crate) fn until_told<'a>(&'a self, lines: &'a [&'a str]) -> impl Future<Output = ()> + 'a {
        let place = std::panic::Location::caller();
        async move {
            let mut changes = self.api.changes();
            let wait = changes.wait_for(|_| told(&self.status()) == lines);
            if tokio::time::timeout(PATIENCE, wait).await.is_err() {
                assert_eq!(told(&self.status()), lines, "{place}\n{}", self.log());
            }
        }
    }

    /// Waits until kubelet was asked for its list so often.
    pub(crate) async fn until_listed(&self, times: usize) {
        let wait = async {
            while self.kubelet.calls().list < times {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "it does not look\n{}", self.log());
    }

    /// Waits until kubelet was asked what it offers so often.
    pub(crate) async fn until_asked_what_it_offers(&self, times: usize) {
        let wait = async {
            while self.kubelet.calls().allocatable < times {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "it does not ask\n{}", self.log());
    }

    /// What the agent's process has mapped.
    pub(crate) fn maps(&self) -> String {
        std::fs::read_to_string(self.process().join("maps")).unwrap()
    }

    /// NVIDIA's device files that the agent's process has open.
    pub(crate) fn open_devices(&self) -> Vec<PathBuf> {
        let open = std::fs::read_dir(self.process().join("fd")).unwrap();
        let files = open.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
        files.filter(|file| file.to_string_lossy().starts_with("/dev/nvidia")).collect()
    }

    /// What the agent's process keeps in memory, in KiB: `VmRSS:` in all, `RssAnon:` beside pages of files.
    pub(crate) fn memory(&self, which: &str) -> u64 {
        let status = std::fs::read_to_string(self.process().join("status")).unwrap();
        let line = status.lines().find(|line| line.starts_with(which)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// The processor time that the agent's process has taken: user and system, in hundredths of a second.
    fn processor_times(&self) -> (u64, u64) {
        let stat = std::fs::read_to_string(self.process().join("stat")).unwrap();
        // The name ends with the last bracket; user and system time are fields 14 and 15.
        let mut after = stat.rsplit_once(')').unwrap().1.split_whitespace().skip(11);
        let mut next = || after.next().unwrap().parse().unwrap();
        (next(), next())
    }

    /// Both together.
    pub(crate) fn processor_time(&self) -> u64 {
        let (user, system) = self.processor_times();
        user + system
    }

    /// What the agent's process takes: resident memory, and processor time in hundredths of a second.
    pub(crate) fn cost(&self) -> String {
        let status = std::fs::read_to_string(self.process().join("status")).unwrap();
        let memory = status
            .lines()
            .filter(|line| ["VmRSS", "VmHWM", "RssAnon"].iter().any(|one| line.starts_with(one)));
        let (user, system) = self.processor_times();
        let memory: Vec<_> =
            memory.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        format!("{}; user {user}, system {system}", memory.join(", "))
    }

    fn process(&self) -> PathBuf {
        let pid = self.agent.as_ref().unwrap().id().unwrap();
        Path::new("/proc").join(pid.to_string())
    }

    /// What the agent answers to kubelet's probe of this path: the status and the text.
    async fn probed(&self, path: &str) -> std::io::Result<(u16, String)> {
        let log = self.log();
        let address = log.rsplit("listening address=").next().and_then(|rest| rest.split_whitespace().next());
        let mut stream = tokio::net::TcpStream::connect(address.unwrap_or_default()).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let status = answer.split_whitespace().nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
        Ok((status, answer))
    }

    /// Waits until the agent says that it is ready, or, with a text, that it is not, for this.
    #[track_caller]
    pub(crate) fn until_ready<'a>(&'a self, not_for: Option<&'a str>) -> impl Future<Output = ()> + 'a {
        let place = std::panic::Location::caller();
        async move {
            let wait = async {
                loop {
                    let answer = self.probed("/readyz").await;
                    let so = answer.is_ok_and(|(status, text)| match not_for {
                        None => status == 200,
                        Some(why) => status == 503 && text.contains(why),
                    });
                    if so {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            let came = tokio::time::timeout(PATIENCE, wait).await.is_ok();
            assert!(came, "{place}: {:?}\n{}", self.probed("/readyz").await, self.log());
        }
    }

    /// Waits until the log has this once more than now.
    pub(crate) async fn until_logged_again(&self, text: &str) {
        let count = || self.log().matches(text).count();
        let before = count();
        let wait = async {
            while count() < before + 1 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "{text}\n{}", self.log());
    }

    /// Waits until the log has this.
    pub(crate) async fn until_logged(&self, text: &str) {
        let wait = async {
            while !self.log().contains(text) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let came = tokio::time::timeout(PATIENCE, wait).await.is_ok();
        assert!(came, "{text}\n{}", self.log());
    }
}

#[expect(clippy::disallowed_methods, reason = "a test has no arguments of its own")]
fn another_program() -> Option<std::ffi::OsString> {
    std::env::var_os("SLICEWRIGHT_AGENT")
}

/// Whether the agent is not that of this build, but the published one, for one.
pub(crate) fn is_another_program() -> bool {
    another_program().is_some()
}

fn program() -> std::ffi::OsString {
    another_program().unwrap_or(env!("CARGO_BIN_EXE_slicewright-agent").into())
}

/// The library that cargo built beside this program.
fn library() -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name("libsimulated_nvml.so");
    assert!(library.exists(), "{} is not built", library.display());
    library
}

/// As NVIDIA's plugin names it: a `+` is no character of a resource's name.
fn resource(device: &str) -> String {
    let profile = device.split_once(':').map(|(_, place)| place.split_once('@').unwrap().0);
    profile.map_or("nvidia.com/gpu".to_owned(), |profile| {
        format!("nvidia.com/mig-{}", profile.replace('+', "."))
    })
}

/// What a status tells, one line for each GPU, without those that are whole and free, and for each doubt.
pub(crate) fn told(status: &GpuNodeStatus) -> Vec<String> {
    let Some(observed) = &status.observed else { return vec!["nothing".to_owned()] };
    let plain = |gpu: &&ObservedGpu| gpu.mig_enabled || gpu.driver_error.is_some() || !gpu.holders.is_empty();
    let mut lines: Vec<_> = observed.gpus.iter().filter(plain).map(gpu).collect();
    if let Some(doubts) = &observed.doubts {
        lines.extend(doubts.books_unreadable.iter().map(|why| format!("books: {why}")));
        let unknown = doubts.unknown_devices.iter();
        lines.extend(unknown.map(|one| format!("unknown {}: {}", one.id, holders(&one.holders))));
        lines.extend(
            (!doubts.held_twice.is_empty()).then(|| format!("{} held twice", doubts.held_twice.len())),
        );
    }
    lines
}

fn gpu(gpu: &ObservedGpu) -> String {
    if let Some(why) = &gpu.driver_error {
        return format!("{}: {why}", gpu.index);
    }
    if !gpu.mig_enabled {
        return format!("{}: whole, {}", gpu.index, holders(&gpu.holders));
    }
    let slices: Vec<_> = gpu.slices.iter().map(slice).collect();
    format!("{}: {}", gpu.index, slices.join("; "))
}

fn slice(slice: &ObservedSlice) -> String {
    let ObservedSlice { profile, start, used, holders: by, unexplained, .. } = slice;
    let by = if by.is_empty() { String::new() } else { format!(" {}", holders(by)) };
    let busy = if *unexplained { " (a process)" } else { "" };
    format!("{profile}@{} {used:?}{by}{busy}", start.unwrap())
}

fn holders(holders: &[Holder]) -> String {
    let one = |holder: &Holder| match (&holder.pod, &holder.uid) {
        (Some(pod), _) => format!("{pod}/{}", holder.container),
        (None, uid) => format!("{}/{}", uid.clone().unwrap(), holder.container),
    };
    holders.iter().map(one).collect::<Vec<_>>().join(" ")
}
