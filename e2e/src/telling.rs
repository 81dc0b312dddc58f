//! Runs a scenario: chooses the cluster, makes the checks of every scenario, and reports scenarios that
//! failed or were skipped.

use std::panic::AssertUnwindSafe;
use std::sync::Once;

use anyhow::Context;
use futures::FutureExt;

use crate::not_here::NotHere;
use crate::provider::Kind;
use crate::scene::Scene;
use crate::{needs, pool, times};

/// Tells a scenario on a cluster of its own, which is empty but for our CRDs;
/// and holds it to what every scenario must keep.
///
/// # Panics
/// When the scenario fails, or leaves behind what none may.
pub fn scenario(story: impl AsyncFnOnce(&mut Scene) -> anyhow::Result<()>) {
    if Kind::asked_for().is_ok_and(Kind::has_real_nodes) {
        let thread = std::thread::current();
        let why = thread.name().and_then(needs::why_not_on_real_nodes);
        return leave_out(why.unwrap_or("it was written for virtual nodes"));
    }
    scenario_on_any_nodes(story);
}

/// The same, for a scenario about what Kueue does in one release and not in the other: `next` is its newest, which only
/// `cargo xtask e2e --next-kueue` runs.
///
/// # Panics
/// As [`scenario`].
pub fn scenario_of_kueue(next: bool, story: impl AsyncFnOnce(&mut Scene) -> anyhow::Result<()>) {
    match (next, crate::kueue::is_next()) {
        (true, false) => leave_out("its Kueue is the newest, which `cargo xtask e2e --next-kueue` runs"),
        (false, true) => leave_out("the newest Kueue does otherwise; another scenario says what"),
        _ => scenario(story),
    }
}

#[expect(clippy::print_stderr, reason = "that a test was left out is told to whoever reads its output")]
fn leave_out(why: &str) {
    eprintln!("left out: {why}");
    times::left_out(why);
}

/// The same, for a scenario that makes sense on real GPU nodes too: it counts
/// slices by GPU, since nodes may have more of them than it asked for, and
/// lets nothing go wrong.
///
/// # Panics
/// When the scenario fails, or leaves behind what none may.
#[expect(
    clippy::print_stderr,
    reason = "where the logs of a failed test are is told to whoever reads its output"
)]
pub fn scenario_on_any_nodes(story: impl AsyncFnOnce(&mut Scene) -> anyhow::Result<()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be started");
    logs();
    let mut reusable = None;
    let outcome = runtime.block_on(async {
        let mut scene = Scene::open().await.context("there is no cluster for the scenario")?;
        let whole = async {
            story(&mut scene).await?;
            scene.afterwards().await?;
            scene.look_at_rights()?;
            scene.used.note()
        };
        let told = AssertUnwindSafe(whole).catch_unwind().await;
        // A control plane of ours has everything: there it would be a failure.
        let missed = match &told {
            Ok(Err(error)) => error.downcast_ref::<NotHere>(),
            Err(panic) => panic.downcast_ref::<NotHere>(),
            Ok(Ok(())) => None,
        };
        // A control plane of ours has everything: there it would be a failure.
        let left_out = missed.filter(|_| !scene.provider.is_ours_alone()).copied();
        if !matches!(told, Ok(Ok(()))) && left_out.is_none() {
            eprintln!("{}", scene.picture().await);
            if let Some(folder) = scene.provider.evidence() {
                eprintln!("the logs of the control plane are in {}", folder.display());
            }
        }
        let began = scene.began;
        reusable = scene.close(!matches!(told, Ok(Ok(())))).await;
        if left_out.is_none() {
            times::note(began.elapsed());
        }
        anyhow::Ok((told, left_out))
    });
    runtime.shutdown_background();
    pool::give_back(reusable);
    match outcome {
        Ok((_, Some(NotHere(why)))) => leave_out(why),
        Ok((Ok(Ok(())), None)) => {}
        Ok((Ok(Err(error)), None)) | Err(error) => panic!("{error:#}"),
        // It was told already.
        Ok((Err(panic), None)) => std::panic::resume_unwind(panic),
    }
}

/// What operators and virtual nodes log goes to the output of the test, which
/// is shown when it fails.
fn logs() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Somebody else's subscriber is as good.
        let _ = tracing_subscriber::fmt()
            .with_env_filter(crate::log::shown_lines())
            .with_test_writer()
            .with_ansi(false)
            .try_init();
    });
}
