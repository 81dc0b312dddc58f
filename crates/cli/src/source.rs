//! Where a fleet is read from: a recording, standard input, or a cluster.

use std::path::PathBuf;
use std::time::Duration;

use controller::agents_policy;
use controller::calls::Calls;
use controller::gather::{Ask, GatherError, Gathered, gather};
use controller::{MapRef, Settings, client, clock};
use jiff::Timestamp;
use observe::Objects;
use observe::problem::{Problem, Severity};
use observe::snapshot::record::{self, Recording};
use observe::snapshot::{Provenance, Snapshot};
use tokio::runtime::Runtime;

use crate::exit::{Failure, chain};
use crate::question;

/// Where the fleet is read from.
#[derive(Clone, Debug, clap::Args)]
pub struct Source {
    /// A recorded fleet (docs/reference/snapshot.md); `-` reads it from
    /// standard input. If absent, the present fleet of the cluster is read
    #[arg(long, value_name = "SNAPSHOT")]
    fleet: Option<PathBuf>,
    #[command(flatten)]
    cluster: Cluster,
}

/// A cluster, and what of it has to be told.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub struct Cluster {
    /// A kubeconfig; if absent, the usual one
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<String>,
    /// A context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The namespace of the GPU Operator, which contains the maps of layouts
    #[arg(long, default_value = "nvidia-gpu-operator", value_name = "NAMESPACE")]
    gpu_operator_namespace: String,
    /// The administrators' map, if the operator has one, as NAME or NAMESPACE/NAME
    #[arg(long, value_name = "MAP")]
    administrators_map: Option<String>,
    /// How many seconds to wait for each answer of the API server
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
}

impl Source {
    /// The fleet, and what is wrong with it that does not keep it from being
    /// used.
    ///
    /// # Errors
    /// When it cannot be read, or the cluster does not answer or refuses.
    pub fn read(&self) -> Result<(Snapshot, Vec<Problem>), Failure> {
        match &self.fleet {
            Some(path) => question::fleet(path),
            None => self.cluster.read(),
        }
    }

    /// Whether standard input is taken.
    #[must_use]
    pub fn is_standard_input(&self) -> bool {
        self.fleet.as_ref().is_some_and(|path| path.as_os_str() == "-")
    }
}

impl Cluster {
    /// Calls to it.
    ///
    /// # Errors
    /// When no kubeconfig can be used.
    pub async fn calls(&self) -> Result<Calls, Failure> {
        let client = client::connect(self.kubeconfig.as_deref(), self.context.as_deref())
            .await
            .map_err(|error| Failure::data(&error))?;
        Ok(Calls::new(client, Duration::from_secs(self.timeout)))
    }

    /// Where the things are that a support bundle has.
    #[must_use]
    pub fn where_things_are(&self, operator_namespace: &str) -> controller::support::Ask {
        controller::support::Ask {
            operator_namespace: operator_namespace.to_owned(),
            gpu_operator_namespace: self.gpu_operator_namespace.clone(),
            map_name: Settings::new("", "").map_name,
        }
    }

    fn ask(&self) -> Ask {
        let defaults = Settings::new("", "");
        let administrators_map = self.administrators_map.as_ref().map(|map| {
            let (namespace, name) = map.split_once('/').unwrap_or((&self.gpu_operator_namespace, map));
            MapRef { namespace: namespace.to_owned(), name: name.to_owned() }
        });
        Ask {
            gpu_operator_namespace: self.gpu_operator_namespace.clone(),
            map_name: defaults.map_name,
            administrators_map,
            page_size: defaults.page_size,
        }
    }

    /// What the cluster says now, and when it was asked.
    ///
    /// # Errors
    /// When it does not answer or refuses.
    pub fn gather(&self) -> Result<(Gathered, Timestamp), Failure> {
        runtime()?.block_on(async {
            let calls = self.calls().await?;
            // Before the first answer: nothing in the recording is older than it says.
            let at = clock::now();
            let gathered = gather(&calls, &self.ask()).await.map_err(|error| failure(&error))?;
            Ok((gathered, at))
        })
    }

    /// Why the operator does not act upon what agents report, as it sees it: no part of a recording. Who may not ask plans
    /// as if it did, and is told.
    fn unguarded_agents(&self, objects: &Objects) -> Result<Result<Option<String>, Problem>, Failure> {
        if !objects.agents_report() {
            return Ok(Ok(None));
        }
        let answer = runtime()?
            .block_on(async { Ok::<_, Failure>(agents_policy::missing(&self.calls().await?).await) })?;
        Ok(answer.map_err(|error| {
            let object = error.what().object.clone();
            let message = format!(
                "it cannot be read ({}), so it is not known whether the operator acts upon what node agents report; this \
                 answer takes it that it does",
                chain(&error)
            );
            Problem::new(Severity::Note, object, message)
        }))
    }

    /// The fleet as a recording of this moment would have it.
    fn read(&self) -> Result<(Snapshot, Vec<Problem>), Failure> {
        let (gathered, taken_at) = self.gather().map_err(|failure| match failure {
            Failure::Data(message) => Failure::Data(format!(
                "{message}; name a kubeconfig with --kubeconfig, or a recorded fleet with --fleet"
            )),
            other => other,
        })?;
        let Gathered { objects, server_version, absent, unreadable } = gathered;
        let unguarded = self.unguarded_agents(&objects)?;
        let provenance = Provenance {
            recorded_by: Some(format!("slicewright {}", env!("CARGO_PKG_VERSION"))),
            server_version,
            absent,
            unreadable: unreadable.into_iter().map(|(object, _)| object).collect(),
            redacted: None,
        };
        let cluster = self.context.clone();
        let text = record::text(&Recording { taken_at, cluster, provenance }, &objects);
        let mut problems = Vec::new();
        let mut snapshot = observe::snapshot::read("the cluster", &text, &mut problems);
        match unguarded {
            Ok(why) => snapshot.objects.unguarded_agents = why,
            Err(not_known) => problems.push(not_known),
        }
        question::refuse_errors(&problems)?;
        Ok((snapshot, problems))
    }
}

fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::Bug(format!("no runtime: {error}")))
}

fn failure(error: &GatherError) -> Failure {
    match error {
        GatherError::Forbidden(rights) => Failure::Unavailable(format!(
            "nothing was read, since these permissions are missing:\n  {}\nA role with the necessary permissions is deploy/snapshot-role.yaml.",
            rights.join("\n  ")
        )),
        GatherError::Call(_) => Failure::Unavailable(chain(error)),
    }
}
