//! `slicewright release`: releases nodes of a real cluster.

use std::io::Write;
use std::time::Duration;

use controller::calls::{CallError, Calls};
use controller::give_back::{GivenBack, forget, give_back};
use controller::publish::kueue::Unanswered;
use controller::release::{Outcome, ReleaseError, Request, release};
use controller::stop::{StopError, Stopped, stop};
use controller::unanswered::withdraw;
use controller::{client, clock};

use crate::exit::{Failure, Status, chain};

/// Releases nodes: uncordons the nodes that the operator cordoned, and reports
/// what remains to be done.
///
/// The GPUs keep the layout that they have. After that, the operator does not change the node, until
/// `slicewright release --resume NODE` hands it back. Where the operator runs, the policy of the
/// node has to be paused or deleted first; a node that ended `Failed` can be released at any time.
///
/// Exits with 0 when every node was released (or there was nothing to do), and with 1 when one was
/// left as it is.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The nodes to release; if none is named, all nodes that the operator cordoned, or whose
    /// change is not finished (with --resume: all that were released)
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,
    /// Hand released nodes back to the operator
    #[arg(long)]
    resume: bool,
    /// First have the operator give the nodes of agents back to MIG manager, and wait for it up to
    /// 165 seconds. Then stop the operator: scale this Deployment, in --operator-namespace, to
    /// zero, wait until no replica holds the lease, and mark its admission checks in Kueue as not
    /// active. For uninstalling
    #[arg(long, value_name = "DEPLOYMENT", conflicts_with = "resume")]
    stop_operator: Option<String>,
    /// A kubeconfig; if absent, the usual one
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<String>,
    /// A context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The operator's namespace, where its lease says whether it runs
    #[arg(long, default_value = "slicewright-system", value_name = "NAMESPACE")]
    operator_namespace: String,
    /// The name of the operator's lease
    #[arg(long, default_value = "slicewright-operator", value_name = "NAME")]
    lease_name: String,
}

/// The timeout of one call.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the operator may take to give nodes back. MIG manager sees an entry of its map two minutes after it is
/// written. With the time to stop it is less than the five minutes that Helm waits for a hook.
const GIVING_BACK: Duration = Duration::from_secs(165);
/// How long the operator may take to stop: longer than its grace period and the lease's duration.
const STOPPING: Duration = Duration::from_secs(90);

/// Runs it.
pub fn run(args: &Args, out: &mut dyn Write) -> crate::Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Bug(format!("no runtime: {error}")))?;
    let request = Request {
        nodes: args.nodes.clone(),
        resume: args.resume,
        lease: (args.operator_namespace.clone(), args.lease_name.clone()),
    };
    let (stopped, outcomes) = runtime.block_on(async {
        let client = client::connect(args.kubeconfig.as_deref(), args.context.as_deref())
            .await
            .map_err(|error| Failure::data(&error))?;
        let calls = Calls::new(client, PATIENCE);
        let stopped = match &args.stop_operator {
            None => None,
            Some(deployment) => {
                let given = give_back(&calls, &request.lease, GIVING_BACK).await;
                let given = given.map_err(|error| Failure::Unavailable(chain(&error)))?;
                let stopped = stop(&calls, deployment, &request.lease, STOPPING).await;
                let stopped = stopped.map_err(|error: StopError| Failure::Unavailable(chain(&error)))?;
                forget(&calls).await.map_err(|error| Failure::Unavailable(chain(&error)))?;
                Some((deployment, given, stopped, withdraw(&calls, Unanswered::Stopped, clock::now()).await))
            }
        };
        let outcomes = release(&calls, &request, clock::now()).await.map_err(|error| match error {
            ReleaseError::NoNode { .. } => Failure::Usage(error.to_string()),
            ReleaseError::Look(_) => Failure::Unavailable(chain(&error)),
        })?;
        Ok::<_, Failure>((stopped, outcomes))
    })?;
    let checks = match stopped {
        None => Status::Success,
        Some((name, given, stopped, checks)) => {
            tell_given(&given, out)?;
            match stopped {
                Stopped::Now => writeln!(out, "the operator is stopped: Deployment {name} has no replicas")?,
                Stopped::NotThere => {
                    writeln!(out, "there is no Deployment {name}, and no replica has the lease")?;
                }
            }
            tell_checks(checks, out)?
        }
    };
    let nodes = tell(&outcomes, out)?;
    Ok(if checks == Status::Success { nodes } else { checks })
}

/// Which nodes MIG manager has again. What those that are left need is told with each of them.
fn tell_given(given: &GivenBack, out: &mut dyn Write) -> std::io::Result<()> {
    for node in &given.back {
        writeln!(out, "{node}: given back to MIG manager")?;
    }
    for node in &given.left {
        writeln!(
            out,
            "{node}: MIG manager does not have it again: no operator runs, or the condition of its GpuNode says what it waits for"
        )?;
    }
    Ok(())
}

/// What became of the checks. Whoever may not read them has a cluster without
/// Kueue, or asks an administrator: that keeps nobody from uninstalling.
fn tell_checks(checks: Result<Vec<String>, CallError>, out: &mut dyn Write) -> crate::Outcome {
    match checks {
        Ok(names) => {
            for name in names {
                writeln!(
                    out,
                    "AdmissionCheck {name}: not active any more; take it off the queues that name it (spec.admissionChecksStrategy)"
                )?;
            }
            Ok(Status::Success)
        }
        Err(error) => {
            writeln!(
                out,
                "the admission checks are not changed: {}; take those with the controller name slicewright.io/slices off their queues, since nobody answers them any more",
                chain(&error)
            )?;
            Ok(if error.is_forbidden() { Status::Success } else { Status::Negative })
        }
    }
}

fn tell(outcomes: &[(String, Outcome)], out: &mut dyn Write) -> crate::Outcome {
    if outcomes.is_empty() {
        writeln!(out, "there is nothing to release")?;
    }
    let mut status = Status::Success;
    for (node, outcome) in outcomes {
        match outcome {
            Outcome::Released { uncordoned, left } => {
                let what = if *uncordoned { "released and uncordoned" } else { "released" };
                writeln!(out, "{node}: {what}")?;
                for line in left {
                    writeln!(out, "  left: {line}")?;
                }
            }
            Outcome::Resumed => writeln!(out, "{node}: returned to the operator")?,
            Outcome::Nothing { why } => writeln!(out, "{node}: nothing to do, {why}")?,
            Outcome::Refused { why } => {
                status = Status::Negative;
                writeln!(out, "{node}: not changed: {why}")?;
            }
        }
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(outcomes: &[(&str, Outcome)], text: &str, status: Status) {
        let outcomes: Vec<_> = outcomes.iter().map(|(n, o)| ((*n).to_owned(), o.clone())).collect();
        let mut out = Vec::new();
        let found = tell(&outcomes, &mut out).expect("a vector can be written");
        assert_eq!(String::from_utf8_lossy(&out), text);
        assert_eq!(found, status);
    }

    #[test]
    fn checks_that_nobody_answers_are_named_with_what_to_do() {
        let mut out = Vec::new();
        let status =
            tell_checks(Ok(vec!["gpu-slices".to_owned()]), &mut out).expect("a vector can be written");
        assert_eq!(status, Status::Success);
        assert_eq!(
            String::from_utf8_lossy(&out),
            "AdmissionCheck gpu-slices: not active any more; take it off the queues that name it (spec.admissionChecksStrategy)\n"
        );
    }

    #[test]
    fn nodes_of_agents_are_told_whether_mig_manager_has_them() {
        let nodes = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let given = GivenBack { back: nodes(&["a1", "a2"]), left: nodes(&["b3"]) };
        let mut out = Vec::new();
        tell_given(&given, &mut out).expect("a vector can be written");
        assert_eq!(
            String::from_utf8_lossy(&out),
            "a1: given back to MIG manager\na2: given back to MIG manager\nb3: MIG manager does not have it again: \
             no operator runs, or the condition of its GpuNode says what it waits for\n"
        );
    }

    #[test]
    fn each_node_has_its_line_and_one_that_was_left_is_told_by_the_status() {
        check(&[], "there is nothing to release\n", Status::Success);
        let left = vec!["nvidia.com/mig.config stays `x`".to_owned()];
        check(
            &[("a1", Outcome::Released { uncordoned: true, left }), ("b2", Outcome::Resumed)],
            "a1: released and uncordoned\n  left: nvidia.com/mig.config stays `x`\nb2: returned to the operator\n",
            Status::Success,
        );
        check(
            &[("a1", Outcome::Refused { why: "the operator runs".to_owned() })],
            "a1: not changed: the operator runs\n",
            Status::Negative,
        );
    }
}
