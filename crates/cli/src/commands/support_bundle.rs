//! `slicewright support-bundle`: what a maintainer asks for first, in a folder. The image for `oc adm must-gather`
//! runs it too.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use controller::support::{Collected, collect};
use observe::snapshot::redact::Keep;
use serde_json::Value;

use crate::commands::snapshot::recorded;
use crate::exit::{Failure, Status, chain};
use crate::source::Cluster;
use crate::{Outcome, files};

/// Collects what a maintainer needs to find out what went wrong, in a folder
///
/// The fleet as `slicewright snapshot` records it, the plan and the pictures of
/// it, policies and GpuNodes with their statuses, the operator's Deployment,
/// lease and logs, MIG manager's logs, the map of layouts, and the operator's
/// events. The command only reads, and it reads no Secret. What it cannot read
/// is listed in `missing.txt`.
///
/// These files name namespaces, pods and nodes. With --redact, the folder
/// contains only the recorded fleet without the names of namespaces and of the
/// objects in them, and what is made from it; statuses, events and logs are
/// left out, since they quote names.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  slicewright support-bundle --to slicewright-support
  slicewright support-bundle --to slicewright-support --redact
  oc adm must-gather --image=REGISTRY/slicewright/must-gather:VERSION")]
pub struct Args {
    /// The folder to create; if it exists, it must be empty
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Leave out the names of users' objects, and all statuses, events and logs
    #[arg(long)]
    redact: bool,
    /// The operator's namespace
    #[arg(long, default_value = "slicewright-system", value_name = "NAMESPACE")]
    operator_namespace: String,
    #[command(flatten)]
    cluster: Cluster,
}

/// The policies of the recorded fleet, as manifests for `slicewright plan`; nothing where it has none.
fn policies(recording: &str) -> Option<String> {
    let recording: Value = serde_saphyr::from_str(recording).ok()?;
    let all = recording["objects"].as_array()?.iter().filter(|object| object["kind"] == "GpuPartitionPolicy");
    let texts: Vec<String> = all.filter_map(|policy| serde_saphyr::to_string(policy).ok()).collect();
    (!texts.is_empty()).then(|| texts.join("---\n"))
}

/// Runs it.
pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let Args { to, redact, operator_namespace, cluster } = args;
    if std::fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Failure::Usage(format!(
            "--to {}: there is something in this folder; name one that is empty or not there",
            to.display()
        )));
    }
    let mut kept = 0;
    let mut missing = Vec::new();
    match cluster.gather() {
        Ok((gathered, at)) => {
            let keep = redact.then(Keep::default);
            let (fleet, policies_file) = (to.join("fleet.yaml"), to.join("policies.yaml"));
            let recording = recorded(&gathered, at, None, keep.as_ref());
            write(&fleet, &recording)?;
            write(&to.join("fleet.txt"), &made(&["fleet"], &fleet, None))?;
            kept += 2;
            if let Some(policies) = policies(&recording) {
                write(&policies_file, &policies)?;
                write(&to.join("plan.txt"), &made(&["plan"], &fleet, Some(&policies_file)))?;
                write(&to.join("plan.json"), &made(&["plan", "-o", "json"], &fleet, Some(&policies_file)))?;
                kept += 3;
            }
        }
        // Whoever cannot record the fleet still wants the logs.
        Err(failure) => {
            let mut said = Vec::new();
            let _ = failure.report(&mut said);
            let said = String::from_utf8_lossy(&said).split_whitespace().collect::<Vec<_>>().join(" ");
            missing.push(("fleet.yaml".to_owned(), said));
        }
    }
    if !redact {
        let collected = collected(cluster, operator_namespace)?;
        for (file, text) in &collected.files {
            write(&to.join(file), text)?;
            kept += 1;
        }
        missing.extend(collected.missing);
    }
    let text: String = missing.iter().map(|(file, why)| format!("{file}: {why}\n")).collect();
    if !text.is_empty() {
        write(&to.join("missing.txt"), &text)?;
    }
    writeln!(out, "{}: {kept} files", to.display())?;
    if !missing.is_empty() {
        writeln!(out, "{} could not be read; missing.txt says why", missing.len())?;
    }
    if !redact {
        writeln!(out, "The files name namespaces, pods and nodes: read them before you hand them on.")?;
    }
    Ok(if kept == 0 { Status::Negative } else { Status::Success })
}

fn collected(cluster: &Cluster, operator_namespace: &str) -> Result<Collected, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Bug(format!("no runtime: {error}")))?;
    runtime.block_on(async {
        let calls = cluster.calls().await?;
        Ok(collect(&calls, &cluster.where_things_are(operator_namespace)).await)
    })
}

/// What one of our commands says of the recording, whatever its status is.
fn made(words: &[&str], fleet: &Path, policies: Option<&Path>) -> String {
    let line =
        ["slicewright"].iter().chain(words).map(OsString::from).chain(["--fleet".into(), fleet.into()]);
    let line = line.chain(policies.into_iter().flat_map(|file| ["-f".into(), file.into()]));
    let (mut said, mut complained) = (Vec::new(), Vec::new());
    let _ = crate::run(line, &mut said, &mut complained);
    [said, complained].iter().map(|text| String::from_utf8_lossy(text)).collect()
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::Data(format!("cannot make {}: {}", folder.display(), chain(&error))))?;
    }
    files::write_whole(path, text)
}
