//! A real control plane as plain processes on loopback: etcd, kube-apiserver,
//! kube-controller-manager and kube-scheduler, with certificates, RBAC and an
//! audit log, and without kubelets.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::sync::Mutex;

use crate::assets::Assets;
use crate::certificates::{Authority, Signed, token_keys};
use crate::ports::Ports;
use crate::process::{Den, Running};

/// etcd: the name of its process and of its folder.
const ETCD: &str = "etcd";
/// How long the API server may take to be ready.
const PATIENCE: Duration = Duration::from_secs(90);
/// How often it is asked: there is nothing to watch before it answers.
const ASKED_EVERY: Duration = Duration::from_millis(100);

/// A control plane that runs. It ends when it is dropped.
pub struct ControlPlane {
    assets: Assets,
    den: Den,
    ports: Ports,
    administrator: Kubeconfig,
    /// The API server, apart from the others: it is restarted.
    api_server: Mutex<Option<Running>>,
    others: Mutex<Vec<Running>>,
}

/// Who audits whom: everything that the operator does, and nothing else. Of
/// our own objects the answers too: what each status that was ever written
/// looks like beside the rest of its object.
const AUDIT_POLICY: &str = r#"apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["USER"]
  verbs: [get, list, watch]
- level: RequestResponse
  users: ["USER"]
  resources: [{group: slicewright.io}]
- level: Request
  users: ["USER"]
- level: None
"#;

/// The shortest back-off that the scheduler accepts: a pod that could not be
/// placed is looked at again after a second and not after ten.
const SCHEDULER: &str = "apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: KUBECONFIG}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
";

impl ControlPlane {
    /// Starts one; `audited` is the user whose requests are written down.
    ///
    /// # Errors
    /// When a binary is missing, or does not start; the error ends with its
    /// last words.
    pub async fn start(audited: &str) -> anyhow::Result<Self> {
        let assets = Assets::find()?;
        let mut attempt = 1;
        loop {
            match Self::try_to_start(&assets, audited).await {
                Err(error) if attempt < 3 && format!("{error:#}").contains("address already in use") => {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    async fn try_to_start(assets: &Assets, audited: &str) -> anyhow::Result<Self> {
        let den = Den::new().context("cannot make a folder for the control plane")?;
        let ports = Ports::free().context("no port is free")?;
        let administrator = prepare(den.folder(), ports, audited)?;
        let plane = Self {
            assets: assets.clone(),
            den,
            ports,
            administrator,
            api_server: Mutex::new(None),
            others: Mutex::new(Vec::new()),
        };
        plane.start_all().await?;
        Ok(plane)
    }

    /// Starts every part.
    pub(crate) async fn start_all(&self) -> anyhow::Result<()> {
        self.others.lock().await.push(self.start_etcd()?);
        self.start_api_server().await?;
        let mut others = self.others.lock().await;
        others.push(self.start_controller_manager()?);
        others.push(self.start_scheduler()?);
        Ok(())
    }

    /// Ends every part.
    pub(crate) async fn stop_all(&self) -> anyhow::Result<()> {
        let api_server = self.api_server.lock().await.take();
        let others = std::mem::take(&mut *self.others.lock().await);
        for running in api_server.into_iter().chain(others) {
            self.den.stop(running).context("cannot end the control plane")?;
        }
        Ok(())
    }

    /// The process of etcd, if it runs.
    pub(crate) async fn etcd_process(&self) -> Option<u32> {
        self.others.lock().await.iter().find(|running| running.name() == ETCD).map(Running::id)
    }

    /// Where etcd keeps its data.
    pub(crate) fn etcd_folder(&self) -> PathBuf {
        self.den.folder().join(ETCD)
    }

    /// How etcd is told that it is alone.
    pub(crate) fn etcd_peers(&self) -> [String; 2] {
        let peer = self.ports.etcd_peer;
        [
            format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
            format!("--initial-cluster=default=http://127.0.0.1:{peer}"),
        ]
    }

    /// How an administrator reaches it.
    #[must_use]
    pub fn administrator(&self) -> &Kubeconfig {
        &self.administrator
    }

    /// The kubeconfig of the administrator, as a file.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.den.folder().join("admin.kubeconfig")
    }

    /// The audit log.
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.den.folder().join("audit.log")
    }

    /// The folder with all logs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.den.folder()
    }

    /// Leaves the folder behind when the control plane ends.
    pub fn keep_folder(&self) {
        self.den.keep();
    }

    /// Ends the API server and starts it again, on the same port.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn restart_api_server(&self) -> anyhow::Result<()> {
        if let Some(running) = self.api_server.lock().await.take() {
            self.den.stop(running).context("cannot end the API server")?;
        }
        self.start_api_server().await
    }

    fn path(&self, name: &str) -> String {
        self.den.folder().join(name).display().to_string()
    }

    fn start_etcd(&self) -> anyhow::Result<Running> {
        let Ports { etcd, etcd_peer, .. } = self.ports;
        let mut command = Command::new(&self.assets.etcd);
        command
            .arg("--unsafe-no-fsync")
            .arg(format!("--data-dir={}", self.path(ETCD)))
            .arg(format!("--listen-client-urls=https://127.0.0.1:{etcd}"))
            .arg(format!("--advertise-client-urls=https://127.0.0.1:{etcd}"))
            .arg(format!("--listen-peer-urls=http://127.0.0.1:{etcd_peer}"))
            .args(self.etcd_peers())
            .arg(format!("--cert-file={}", self.path("server.crt")))
            .arg(format!("--key-file={}", self.path("server.key")))
            .arg(format!("--trusted-ca-file={}", self.path("ca.crt")))
            .args(["--client-cert-auth", "--log-level=warn"]);
        Ok(self.den.start(ETCD, command)?)
    }

    async fn start_api_server(&self) -> anyhow::Result<()> {
        let Ports { etcd, api_server, .. } = self.ports;
        let mut command = Command::new(&self.assets.api_server);
        command
            .args(["--authorization-mode=RBAC", "--allow-privileged=true", "--bind-address=127.0.0.1"])
            .args(["--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none"])
            .args(["--audit-log-mode=blocking", "--profiling=false"])
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg(format!("--secure-port={api_server}"))
            .arg(format!("--etcd-servers=https://127.0.0.1:{etcd}"));
        for (flag, file) in [
            ("etcd-cafile", "ca.crt"),
            ("etcd-certfile", "server.crt"),
            ("etcd-keyfile", "server.key"),
            ("client-ca-file", "ca.crt"),
            ("tls-cert-file", "server.crt"),
            ("tls-private-key-file", "server.key"),
            ("service-account-signing-key-file", "tokens.key"),
            ("service-account-key-file", "tokens.pub"),
            ("audit-policy-file", "audit-policy.yaml"),
            ("audit-log-path", "audit.log"),
        ] {
            command.arg(format!("--{flag}={}", self.path(file)));
        }
        let running = self.den.start("kube-apiserver", command)?;
        *self.api_server.lock().await = Some(running);
        self.ready().await
    }

    fn start_controller_manager(&self) -> anyhow::Result<Running> {
        let mut command = Command::new(&self.assets.controller_manager);
        command
            .args(["--leader-elect=false", "--secure-port=0", "--profiling=false"])
            // Each controller with the rights of its own and no more, as in a real cluster.
            .arg("--use-service-account-credentials=true")
            .arg("--controllers=*,-node-ipam-controller,-horizontal-pod-autoscaler-controller")
            // Nobody is to wait five seconds to hear that a node is down.
            .arg("--node-monitor-period=1s")
            .arg(format!("--kubeconfig={}", self.path("kube-controller-manager.kubeconfig")))
            .arg(format!("--service-account-private-key-file={}", self.path("tokens.key")))
            .arg(format!("--root-ca-file={}", self.path("ca.crt")));
        Ok(self.den.start("kube-controller-manager", command)?)
    }

    fn start_scheduler(&self) -> anyhow::Result<Running> {
        let mut command = Command::new(&self.assets.scheduler);
        command
            .args(["--secure-port=0", "--profiling=false"])
            .arg(format!("--config={}", self.path("scheduler.yaml")));
        Ok(self.den.start("kube-scheduler", command)?)
    }

    /// Waits until the API server says that it is ready.
    async fn ready(&self) -> anyhow::Result<()> {
        let client = client_of(&self.administrator).await?;
        let mut last = "it has not answered".to_owned();
        let asking = async {
            let mut tick = tokio::time::interval(ASKED_EVERY);
            loop {
                tick.tick().await;
                self.nobody_ended().await?;
                let request = http::Request::get("/readyz").body(Vec::new())?;
                match client.request_text(request).await {
                    Ok(answer) if answer == "ok" => return anyhow::Ok(()),
                    Ok(answer) => last = answer,
                    Err(error) => last = error.to_string(),
                }
            }
        };
        match tokio::time::timeout(PATIENCE, asking).await {
            Ok(result) => result,
            Err(_) => {
                self.den.keep();
                bail!(
                    "the API server was not ready after {} s; it said last: {last}; the logs are in {}",
                    PATIENCE.as_secs(),
                    self.den.folder().display()
                )
            }
        }
    }

    /// Fails when a process has ended by itself, with what it said.
    ///
    /// # Errors
    /// Then.
    pub async fn nobody_ended(&self) -> anyhow::Result<()> {
        let mut api_server = self.api_server.lock().await;
        let mut others = self.others.lock().await;
        for running in api_server.iter_mut().chain(others.iter_mut()) {
            if let Some(status) = running.ended()? {
                bail!("{} ended by itself with {status}:\n{}", running.name(), running.last_words());
            }
        }
        Ok(())
    }
}

/// A client of its own for a kubeconfig.
///
/// # Errors
/// When the kubeconfig is not valid.
pub async fn client_of(kubeconfig: &Kubeconfig) -> anyhow::Result<Client> {
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig.clone(), &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Writes every file that the processes read, and returns the administrator's
/// kubeconfig.
fn prepare(folder: &Path, ports: Ports, audited: &str) -> anyhow::Result<Kubeconfig> {
    let authority = Authority::new()?;
    let server = authority.server()?;
    let (private, public) = token_keys()?;
    for (file, content) in [
        ("ca.crt", authority.certificate()),
        ("server.crt", server.certificate),
        ("server.key", server.key),
        ("tokens.key", private),
        ("tokens.pub", public),
        ("audit-policy.yaml", AUDIT_POLICY.replace("USER", audited)),
        (
            "scheduler.yaml",
            SCHEDULER.replace("KUBECONFIG", &folder.join("kube-scheduler.kubeconfig").display().to_string()),
        ),
    ] {
        fs::write(folder.join(file), content).with_context(|| format!("cannot write {file}"))?;
    }
    for (name, user, group) in [
        ("kube-controller-manager", "system:kube-controller-manager", None),
        ("kube-scheduler", "system:kube-scheduler", None),
        ("admin", "administrator", Some("system:masters")),
    ] {
        let text = kubeconfig(ports.api_server, name, &authority, &authority.client(user, group)?)?;
        fs::write(folder.join(format!("{name}.kubeconfig")), text)?;
    }
    Ok(Kubeconfig::read_from(folder.join("admin.kubeconfig"))?)
}

/// A kubeconfig as a file, with everything inside: a certificate in base64,
/// as `kubectl` wants it. JSON is YAML.
fn kubeconfig(port: u16, name: &str, authority: &Authority, client: &Signed) -> anyhow::Result<String> {
    let data = |text: &str| k8s_openapi::ByteString(text.as_bytes().to_vec());
    let value = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "e2e",
        "clusters": [{"name": "e2e", "cluster": {
            "server": format!("https://127.0.0.1:{port}"),
            "certificate-authority-data": data(&authority.certificate()),
        }}],
        "users": [{"name": name, "user": {
            "client-certificate-data": data(&client.certificate),
            "client-key-data": data(&client.key),
        }}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": name}}],
    });
    Ok(serde_json::to_string_pretty(&value)?)
}
