//! The `slicewright-sim` command: simulated machines and clusters, for people
//! and for scripts. Arguments in, one call into a library, sentences out.

pub mod gpu_operator;
mod in_cluster;
mod node;
mod run_cluster;
mod run_openshift_ai;
mod run_operator;

use std::ffi::OsString;
use std::io::Write;

use clap::{Parser, Subcommand};

/// Simulated GPU machines and clusters.
#[derive(Debug, Parser)]
#[command(name = "slicewright-sim", version, max_term_width = 100)]
struct Args {
    /// What is logged to standard error, as filters of `tracing` (`debug`, `cluster=debug`).
    #[arg(long, global = true, default_value = "warn", env = "SLICEWRIGHT_SIM_LOG")]
    log: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Cluster(run_cluster::Args),
    Node(node::Args),
    #[command(name = "openshift-ai")]
    OpenShiftAi(run_openshift_ai::Args),
    Operator(run_operator::Args),
}

/// Runs the command; what people read goes to `out`.
///
/// # Errors
/// What did not work, with its causes. `--help` and mistakes in the arguments
/// end the process as clap does.
pub async fn run(
    args: impl IntoIterator<Item = OsString>,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<()> {
    let args = Args::parse_from(args);
    let filter = tracing_subscriber::EnvFilter::try_new(&args.log)?;
    // A test may have set one already.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
    match args.command {
        Command::Cluster(args) => run_cluster::run(args, out).await,
        Command::Node(args) => node::run(args, out).await,
        Command::OpenShiftAi(args) => run_openshift_ai::run(args, out).await,
        Command::Operator(args) => run_operator::run(args, out).await,
    }
}

/// An error with its causes, in one line; a cause that the text has already is left out.
#[must_use]
pub fn in_one_line(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn a_cause_that_is_told_already_is_not_told_again() {
        let error =
            anyhow::anyhow!("no such file").context("cannot read a: no such file").context("no cluster");
        assert_eq!(super::in_one_line(&error), "no cluster: cannot read a: no such file");
    }

    #[test]
    fn the_arguments_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn help_teaches_annotations_and_faults() {
        let mut command = Args::command();
        let cluster = command.find_subcommand_mut("cluster").expect("it is there");
        let help = cluster.render_long_help().to_string();
        for (form, _) in operands::faults::FAULTS {
            assert!(help.contains(form), "{form}");
        }
        for annotation in [
            cluster::annotations::FAULT,
            cluster::annotations::REBOOT,
            cluster::annotations::OPENS,
            cluster::annotations::STARTS_AFTER,
            cluster::annotations::STOPS_AFTER,
            cluster::annotations::SUCCEEDS_AFTER,
            cluster::annotations::FAILS_AFTER,
        ] {
            assert!(help.contains(annotation), "{annotation}");
        }
    }
}
