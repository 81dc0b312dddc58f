//! Helm, as `cargo xtask tools` builds it, isolated from the settings of the user who runs the tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Why Helm gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no Helm.
    #[error(transparent)]
    Missing(#[from] tools::Missing),
    /// It has nowhere to live.
    #[error("no folder can be made for Helm's caches and settings")]
    Home(#[source] std::io::Error),
    /// It could not be started.
    #[error("{0} cannot be run")]
    Start(PathBuf, #[source] std::io::Error),
    /// It refused.
    #[error("helm refused: {0}")]
    Refused(String),
    /// What it rendered is not YAML.
    #[error("helm rendered something that is not YAML: {0}")]
    Syntax(String),
}

/// The Kubernetes that the chart is rendered for, that of the oldest OpenShift:
/// a Helm that was built as a module takes its own, which is older than any.
pub const KUBERNETES: &str = "1.33.0";

/// The value without which the chart refuses, as `--set-json` takes it: for
/// whoever renders it to look at something else.
pub const REGISTRY: &str = r#"image.registry="registry.example.com""#;

/// A Helm with a home of its own, which goes with it.
#[derive(Debug)]
pub struct Helm {
    program: PathBuf,
    home: TempDir,
}

/// How the chart is rendered.
#[derive(Clone, Debug, Default)]
pub struct Render {
    /// Files with values.
    pub values: Vec<PathBuf>,
    /// Values, as `--set-json` takes them.
    pub set: Vec<String>,
    /// APIs that the cluster is said to have.
    pub apis: Vec<&'static str>,
}

impl Helm {
    /// The Helm that `TEST_ASSET_HELM` names, or the one that was built
    /// (Helm 3.18 or newer). Its caches and settings go into a folder of its own.
    ///
    /// # Errors
    /// When there is none, or no folder can be made.
    pub fn find() -> Result<Self, Error> {
        let program = tools::find("helm")?;
        Ok(Self { program, home: TempDir::new().map_err(Error::Home)? })
    }

    /// A command of this Helm.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        for (variable, folder) in
            [("HELM_CONFIG_HOME", "config"), ("HELM_CACHE_HOME", "cache"), ("HELM_DATA_HOME", "data")]
        {
            command.env(variable, self.home.path().join(folder));
        }
        command.env_remove("KUBECONFIG").env_remove("HELM_NAMESPACE");
        command
    }

    /// Runs it; what it printed.
    ///
    /// # Errors
    /// When it cannot be started or refuses.
    pub fn run(&self, command: &mut Command) -> Result<String, Error> {
        let Output { status, stdout, stderr } =
            command.output().map_err(|error| Error::Start(self.program.clone(), error))?;
        if status.success() {
            return Ok(String::from_utf8_lossy(&stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&stderr).into_owned() + &String::from_utf8_lossy(&stdout);
        Err(Error::Refused(said.trim().to_owned()))
    }

    /// The chart's text, rendered without a cluster as the release
    /// `slicewright` in the namespace `slicewright-system`.
    ///
    /// # Errors
    /// When Helm refuses, as it does with bad values.
    pub fn text(&self, chart: &Path, render: &Render) -> Result<String, Error> {
        let mut command = self.command();
        command.args(["template", "slicewright", "--namespace", "slicewright-system"]).arg(chart);
        command.args(["--kube-version", KUBERNETES]);
        for file in &render.values {
            command.arg("--values").arg(file);
        }
        for set in &render.set {
            command.arg("--set-json").arg(set);
        }
        for api in &render.apis {
            command.arg("--api-versions").arg(api);
        }
        self.run(&mut command)
    }

    /// The objects of the rendered chart, in Helm's order.
    ///
    /// # Errors
    /// When Helm refuses, or renders something that is not YAML.
    pub fn objects(&self, chart: &Path, render: &Render) -> Result<Vec<Value>, Error> {
        let text = self.text(chart, render)?;
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).map_err(|error| Error::Syntax(error.to_string()))?;
        Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
    }
}
