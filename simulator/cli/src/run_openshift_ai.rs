//! `slicewright-sim openshift-ai`: the parts of OpenShift AI that make workbenches run, on a cluster whose
//! nodes are not simulated by this program.

use std::io::Write;

use cluster::Clock;
use tokio_util::sync::CancellationToken;

use crate::in_cluster::{Server, StopSignal};

/// Acts as OpenShift AI for workbenches, on a cluster that does not have it, until it is stopped.
///
/// Each Notebook gets its StatefulSet, with what its hardware profile adds. It is stopped and
/// started by its annotation, culled if culling is on, and shows the conditions of its pod. The CRDs
/// of both kinds may be installed later.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    server: Server,
}

pub(crate) async fn run(args: Args, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    let client = args.server.client().await?;
    let told = StopSignal::listen()?;
    writeln!(out, "doing OpenShift AI's part for workbenches")?;
    out.flush()?;
    let stop = CancellationToken::new();
    let keeping = cluster::keep_workbenches(client, Clock::starting_now(1.0), stop.clone());
    let ending = async {
        let ended = told.comes().await;
        // A write that is under way is finished.
        stop.cancel();
        ended
    };
    let ((), ended) = tokio::join!(keeping, ending);
    ended
}
