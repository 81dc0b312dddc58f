//! The operator as a separate process, and the kernel's figures about it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use controller::Settings;
use controller::settings::Kueue;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use crate::SETTLE;

/// How many ticks of processor time the kernel counts in a second.
const TICKS: f64 = 100.0;

/// The operator of a scenario, with the defaults of the product for what is
/// measured here: how long changes are gathered, the lease, and when it looks again at whoever waits.
pub(crate) fn be_the_operator(kubeconfig: &Path, queues: bool) -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be started");
    let ended = runtime.block_on(async {
        let mut settings = e2e::operator::settings("figures");
        let defaults = Settings::new("figures", settings.lease.namespace.clone());
        settings.batch_delay = defaults.batch_delay;
        settings.lease = defaults.lease;
        // What a round is run for although nothing changes: as often as in the product.
        settings.observe.blocked_after = defaults.observe.blocked_after;
        settings.quota_hold = defaults.quota_hold;
        settings.kueue = if queues { Kueue::AdmissionCheck } else { Kueue::Off };
        settings.rollout.map_settle = SETTLE;
        settings.rollout.cordon_settle = SETTLE;
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let options = KubeConfigOptions::default();
        let client =
            controller::client::client(kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?)?;
        controller::run(client, settings, CancellationToken::new()).await?;
        anyhow::Ok(())
    });
    if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A process that is measured. It ends with this.
pub(crate) struct Measured {
    child: Child,
    folder: PathBuf,
    _kubeconfig: TempDir,
}

impl Measured {
    /// Starts this program once more, as the operator, which answers an admission check if there are queues.
    pub(crate) fn start(kubeconfig: &Kubeconfig, queues: bool) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("kubeconfig");
        // JSON is YAML.
        std::fs::write(&file, serde_json::to_vec(kubeconfig)?)?;
        let program = std::env::current_exe()?;
        let mut command = Command::new(program);
        command.arg("--operator").arg(&file).args(["--queued", if queues { "1" } else { "0" }]);
        let child = command.kill_on_drop(true).spawn()?;
        let pid = child.id().context("the operator ended at once")?;
        Ok(Self { child, folder: PathBuf::from(format!("/proc/{pid}")), _kubeconfig: dir })
    }

    fn status(&self, key: &str) -> anyhow::Result<f64> {
        let text = std::fs::read_to_string(self.folder.join("status")).context("the operator is gone")?;
        let line = text.lines().find(|line| line.starts_with(key)).context("the kernel does not say it")?;
        let kib: f64 = line.split_whitespace().nth(1).context("the kernel does not say it")?.parse()?;
        Ok(kib / 1024.0)
    }

    /// MiB, now.
    pub(crate) fn resident(&self) -> anyhow::Result<f64> {
        self.status("VmRSS:")
    }

    /// MiB, at most so far.
    pub(crate) fn most_resident(&self) -> anyhow::Result<f64> {
        self.status("VmHWM:")
    }

    /// Seconds of processor time so far.
    pub(crate) fn processor(&self) -> anyhow::Result<f64> {
        let text = std::fs::read_to_string(self.folder.join("stat")).context("the operator is gone")?;
        // The name, in parentheses, may have blanks.
        let rest = text.rsplit(')').next().unwrap_or_default();
        let ticks: Vec<f64> =
            rest.split_whitespace().skip(11).take(2).filter_map(|n| n.parse().ok()).collect();
        Ok(ticks.iter().sum::<f64>() / TICKS)
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> anyhow::Result<std::process::ExitStatus> {
        Ok(self.child.wait().await?)
    }
}
