//! Whether the reviewed plan is the one that runs: the annotations that `slicewright plan` prints,
//! committed with the policy, and the resulting status.

use anyhow::Context;
use api::policy_status::{HowMoved, Moved, MovedNode, Review, ReviewState};
use e2e::{POOL, Scene, a100, policy, scenario, wait};
use serde_json::Value;

use crate::snapshot::Recorder;

/// The policy as it is merged: with what the preview printed.
async fn reviewed(recorder: &Recorder, policy: &Value) -> anyhow::Result<Value> {
    let preview = recorder.plan(std::slice::from_ref(policy)).await?;
    let annotations = &preview["provenance"]["annotations"];
    annotations.as_object().context("the preview prints annotations")?;
    let mut policy = policy.clone();
    policy["metadata"]["annotations"] = annotations.clone();
    // Annotations are no part of what is reviewed.
    let again = recorder.plan(std::slice::from_ref(&policy)).await?;
    assert_eq!(again["provenance"], preview["provenance"]);
    Ok(policy)
}

async fn says(scene: &Scene, state: ReviewState) -> anyhow::Result<Review> {
    let what = format!("the review of research is {state:?}");
    wait::until_one(scene.policies(), "research", &what, wait::PATIENCE, |policy| {
        let review = policy.and_then(|policy| policy.status.as_ref()?.review.clone());
        let review = review.ok_or("its status has no review")?;
        if review.state == state { Ok(review) } else { Err(format!("{review:?}")) }
    })
    .await
}

#[test]
fn a_reviewed_plan_that_is_applied_unchanged_is_the_same_and_stays_so_while_it_is_done() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb"), a100("n2", "all-1g.10gb")]).await?;
        let fixed: Value = policy("research", "research").always(&[("3g.40gb", 2)]).at_a_time(2).into();
        let recorder = Recorder::new(scene).await?;
        recorder.record(&["--redact"]).await?;
        let merged = reviewed(&recorder, &fixed).await?;
        scene.operator().await?;
        scene.apply(merged).await?;
        let review = says(scene, ReviewState::Same).await?;
        assert_eq!(
            (review.message.as_str(), review.moved.len()),
            ("the plan is the one that was reviewed", 0)
        );
        scene.offers("n1", &[("3g.40gb", 2)]).await?;
        scene.offers("n2", &[("3g.40gb", 2)]).await?;
        scene.converged("research").await?;
        // The plan in force is another by now; what was judged stays.
        assert_eq!(says(scene, ReviewState::Same).await?, review);
        Ok(())
    });
}

#[test]
fn a_node_that_appears_after_the_review_is_named_and_so_is_what_cannot_be_read() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb"), a100("n2", "all-1g.10gb").label(POOL, "later")]).await?;
        let fixed: Value = policy("research", "research").always(&[("3g.40gb", 2)]).mode("Preview").into();
        let recorder = Recorder::new(scene).await?;
        recorder.record(&[]).await?;
        let mut merged = reviewed(&recorder, &fixed).await?;
        // In between, the pool gets another node.
        scene.patch_node("n2", serde_json::json!({"metadata": {"labels": {POOL: "research"}}})).await?;
        scene.operator().await?;
        scene.apply(merged.clone()).await?;
        let review = says(scene, ReviewState::Moved).await?;
        assert_eq!(review.moved, [Moved::Nodes, Moved::Plan]);
        assert_eq!(review.nodes, [MovedNode { name: "n2".to_owned(), how: HowMoved::Added }]);
        assert!(review.message.ends_with("since then 1 node was added: n2"), "{}", review.message);

        // Other policies than those that were reviewed.
        merged["spec"]["priority"] = serde_json::json!(7);
        scene.apply(merged.clone()).await?;
        let review = wait::until_one(scene.policies(), "research", "it says so", wait::PATIENCE, |policy| {
            let review = policy.and_then(|policy| policy.status.as_ref()?.review.clone());
            let review = review.ok_or("its status has no review")?;
            if review.moved == [Moved::Policies] { Ok(review) } else { Err(format!("{review:?}")) }
        })
        .await?;
        assert_eq!(review.state, ReviewState::Moved);

        merged["metadata"]["annotations"][api::review::REVIEWED_PLAN] = serde_json::json!("looks good to me");
        scene.apply(merged).await?;
        let review = says(scene, ReviewState::Unreadable).await?;
        assert!(
            review.message.contains("`looks good to me` is not written as key=digest"),
            "{}",
            review.message
        );
        Ok(())
    });
}
