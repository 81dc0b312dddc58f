//! A Kubernetes API server for programs that need one: etcd and kube-apiserver as processes, with a token that may
//! do everything.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::running::Running;

/// What it is made of: etcd, kube-apiserver, and kubectl to talk to it.
pub const PROGRAMS: [&str; 3] = ["etcd", "kube-apiserver", "kubectl"];

/// The server, while it runs.
#[derive(Debug)]
pub struct ApiServer {
    kubectl: PathBuf,
    _server: Running,
    _etcd: Running,
    dir: TempDir,
}

impl ApiServer {
    /// Starts it, and waits until it answers.
    ///
    /// # Errors
    /// When a program cannot be started, or does not come up.
    pub fn start(programs: [&Path; 3]) -> anyhow::Result<Self> {
        // Somebody may take a port after it was found free and before the program listens there.
        for _ in 0..4 {
            match Self::start_once(programs) {
                Err(error) if error.to_string().contains("address already in use") => {}
                outcome => return outcome,
            }
        }
        Self::start_once(programs)
    }

    fn start_once([etcd, server, kubectl]: [&Path; 3]) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let file = |name: &str| dir.path().join(name);
        std::fs::write(file("tokens.csv"), "token,administrator,1,system:masters\n")?;
        let (clients, peers, secure) = (free_port()?, free_port()?, free_port()?);
        let of_etcd = format!("http://127.0.0.1:{clients}");
        let peers = format!("http://127.0.0.1:{peers}");
        let mut command = Command::new(etcd);
        command.arg("--data-dir").arg(file("etcd")).arg("--unsafe-no-fsync");
        command.args(["--listen-client-urls", &of_etcd, "--advertise-client-urls", &of_etcd]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &format!("default={peers}")]);
        let mut etcd = Running::start(command, file("etcd.log"))?;

        let mut command = Command::new(server);
        command.args(["--etcd-servers", &of_etcd, "--bind-address", "127.0.0.1"]);
        command.args(["--secure-port", &secure.to_string(), "--service-cluster-ip-range", "10.0.0.0/24"]);
        command.args(["--authorization-mode", "AlwaysAllow", "--service-account-issuer", "https://nobody"]);
        command.arg("--cert-dir").arg(file("certificates")).arg("--token-auth-file").arg(file("tokens.csv"));
        // It makes the key of its certificate before it looks for this one.
        let key = file("certificates").join("apiserver.key");
        command
            .arg("--service-account-key-file")
            .arg(&key)
            .arg("--service-account-signing-key-file")
            .arg(key);
        let mut server = Running::start(command, file("kube-apiserver.log"))?;

        let configuration = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": {
                "server": format!("https://127.0.0.1:{secure}"), "insecure-skip-tls-verify": true,
            }}],
            "users": [{"name": "it", "user": {"token": "token"}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        });
        std::fs::write(file("kubeconfig"), configuration.to_string())?;
        let ready = || -> anyhow::Result<Option<()>> {
            // Without it the API server would wait for as long as we do.
            etcd.runs("the API server's answer")?;
            let mut asked = Command::new(kubectl);
            asked.arg("--kubeconfig").arg(file("kubeconfig")).args(["get", "--raw", "/readyz"]);
            let asked = asked.output().context("cannot start kubectl")?;
            Ok(asked.status.success().then_some(()))
        };
        server.until("the API server's answer", ready)?;
        Ok(Self { kubectl: kubectl.to_owned(), _server: server, _etcd: etcd, dir })
    }

    /// A file by which programs reach it.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// Makes an object; as it is then.
    ///
    /// # Errors
    /// When the server refuses it.
    pub fn create(&self, object: &Value) -> anyhow::Result<Value> {
        self.call(&["create", "--filename", "-"], Some(object))
    }

    /// Merges a change into an object's status.
    ///
    /// # Errors
    /// When the server refuses it.
    pub fn set_status(&self, kind: &str, name: &str, status: &Value) -> anyhow::Result<Value> {
        let change = json!({"status": status}).to_string();
        self.call(
            &["patch", kind, name, "--subresource", "status", "--type", "merge", "--patch", &change],
            None,
        )
    }

    /// All objects of a kind.
    ///
    /// # Errors
    /// When the server does not list them.
    pub fn list(&self, kind: &str) -> anyhow::Result<Vec<Value>> {
        let list = self.call(&["get", kind, "--all-namespaces"], None)?;
        list["items"].as_array().cloned().context("a list has items")
    }

    fn call(&self, args: &[&str], input: Option<&Value>) -> anyhow::Result<Value> {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(self.kubeconfig()).args(args).args(["--output", "json"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(input) = input {
            let file = self.dir.path().join("input.json");
            std::fs::write(&file, input.to_string())?;
            command.stdin(std::fs::File::open(file)?);
        }
        let output = command.output().context("cannot start kubectl")?;
        ensure!(output.status.success(), "kubectl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).context("kubectl does not answer in JSON")
    }
}

/// A port that nobody listens on now.
fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
