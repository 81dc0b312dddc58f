//! `slicewright snapshot`: records the fleet of a real cluster.

use std::io::Write;
use std::path::PathBuf;

use controller::gather::Gathered;
use jiff::Timestamp;
use observe::snapshot::record::{self, Recording};
use observe::snapshot::redact::{Keep, redact};
use observe::snapshot::{Provenance, Redacted};

use crate::exit::{Failure, Status};
use crate::source::Cluster;
use crate::{Outcome, files};

/// Records the fleet of a cluster in the file that `plan`, `fleet` and `explain` read
///
/// The command only reads. It reads the same objects as the operator, so that a
/// plan from the file equals the operator's plan, and records only the fields
/// that planning needs (no environment of containers, no secrets). With
/// --redact, names of namespaces and of the objects in them are replaced by
/// numbers, and labels and texts that no plan depends on are omitted; apart
/// from these names, the plan is the same.
///
/// Exits with 0 if the fleet was recorded. If permissions are missing, it names
/// all of them, writes nothing, and exits with 1.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slicewright snapshot -o fleets/lab.yaml --name lab
  slicewright snapshot --redact --keep-namespace team-a -o fleets/lab.yaml
  slicewright snapshot --context lab | slicewright fleet --fleet -")]
pub struct Args {
    /// The file to write (completely or not at all); if absent, standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The name of the cluster, which distinguishes its comments in pull requests
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Replace the names of namespaces and of what is in them, and leave out what no plan depends on
    #[arg(long)]
    redact: bool,
    /// A namespace whose name is not replaced, because expectations mention it. Namespaces that a
    /// policy of the cluster names keep their names anyway, and so do those of the platform
    #[arg(long, value_name = "NAMESPACE", requires = "redact")]
    keep_namespace: Vec<String>,
    /// A label of nodes or namespaces that is kept with its values, for labels by which future
    /// policies may select. Labels that policies select by now, and those of the platform, are kept
    /// anyway
    #[arg(long, value_name = "KEY", requires = "redact")]
    keep_label: Vec<String>,
    #[command(flatten)]
    cluster: Cluster,
}

/// Runs it.
pub fn run(args: &Args, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
    let (gathered, at) = args.cluster.gather()?;
    let text = args.text(&gathered, at);
    match &args.output {
        Some(path) => {
            files::write_whole(path, &text)?;
            tell(&gathered, &format!("; written to {}", path.display()), err)?;
        }
        None => {
            out.write_all(text.as_bytes())?;
            tell(&gathered, "", err)?;
        }
    }
    Ok(Status::Success)
}

impl Args {
    fn text(&self, gathered: &Gathered, taken_at: Timestamp) -> String {
        let keep = self.redact.then(|| Keep {
            namespaces: self.keep_namespace.iter().cloned().collect(),
            labels: self.keep_label.iter().cloned().collect(),
        });
        recorded(gathered, taken_at, self.name.clone(), keep.as_ref())
    }
}

/// The recording of what was gathered; without names, where it is said what keeps its own.
pub(crate) fn recorded(
    gathered: &Gathered,
    taken_at: Timestamp,
    cluster: Option<String>,
    redacted_but: Option<&Keep>,
) -> String {
    let Gathered { objects, server_version, absent, unreadable } = gathered;
    let mut provenance = Provenance {
        recorded_by: Some(format!("slicewright {}", env!("CARGO_PKG_VERSION"))),
        server_version: server_version.clone(),
        absent: absent.clone(),
        unreadable: unreadable.iter().map(|(object, _)| object.clone()).collect(),
        redacted: None,
    };
    let mut objects = std::borrow::Cow::Borrowed(objects);
    if let Some(keep) = redacted_but {
        let (redacted, _) = redact(&objects, keep);
        // What is not recorded has no pseudonym.
        for object in &mut provenance.unreadable {
            if let Some((kind, _)) = object.split_once(' ').filter(|(_, name)| name.contains('/')) {
                *object = format!("{kind} (redacted)");
            }
        }
        objects = std::borrow::Cow::Owned(redacted);
        provenance.redacted = Some(Redacted {
            kept_namespaces: keep.namespaces.iter().cloned().collect(),
            kept_labels: keep.labels.iter().cloned().collect(),
        });
    }
    record::text(&Recording { taken_at, cluster, provenance }, &objects)
}

/// What a person should know of the recording, apart from it.
fn tell(gathered: &Gathered, at: &str, err: &mut dyn Write) -> Result<(), Failure> {
    let Gathered { objects, server_version: _, absent, unreadable } = gathered;
    writeln!(
        err,
        "recorded: {} nodes with GPUs, {} pods, {} workbenches, {} hardware profiles, {} policies{at}",
        objects.nodes.len(),
        objects.pods.len(),
        objects.notebooks.len(),
        objects.hardware_profiles.len(),
        objects.policies.len(),
    )?;
    if !absent.is_empty() {
        writeln!(err, "the cluster has none of these kinds: {}", absent.join(", "))?;
    }
    for (object, why) in unreadable {
        writeln!(err, "warning: {object} cannot be read, and is not recorded: {why}")?;
    }
    Ok(())
}
