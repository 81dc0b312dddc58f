//! `slicewright-sim openshift-ai`: the parts of OpenShift AI that make
//! workbenches run, on a cluster whose nodes are somebody else's.

use std::io::Write;

use cluster::Clock;
use tokio_util::sync::CancellationToken;

use crate::in_cluster::{Server, Told};

/// Does OpenShift AI's part for workbenches on a cluster without it, until it is told to stop.
///
/// Each Notebook gets its StatefulSet, with what its hardware profile adds; it is stopped and
/// started by its annotation, culled when culling is on, and shows its pod's conditions. The CRDs
/// of both kinds are looked for until they are there.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    server: Server,
}

pub(crate) async fn run(args: Args, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    let client = args.server.client().await?;
    let told = Told::listen()?;
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
