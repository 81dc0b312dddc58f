//! Real Flux applies the example repository to a virtual fleet, from a Git
//! server over HTTP.

mod controllers;
mod git;

use anyhow::{Context, ensure};
use cluster::NodeSpec;
use controllers::{Flux, OPERATOR, POLICIES, policy, with_flux};
use e2e::{POOL, Scene, a100, mig, objects, pod, scenario};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

/// Where the repository says what the teaching pool has.
const TEACHING: &str = "clusters/lab/teaching.yaml";
/// And what the research pool has.
const RESEARCH: &str = "base/research.yaml";
/// What Argo CD may do.
const RIGHTS: &str = include_str!("../../../examples/gitops/argocd/rights.yaml");
/// The layout of the teaching pool in the example.
const COURSES: &str = "slices: [{profile: 1g.6gb, count: 4}]";

/// The fleet of the lab, as the example repository has recorded it.
async fn lab(scene: &mut Scene) -> anyhow::Result<()> {
    let a30 = NodeSpec::new("gpu-3", 1, "A30").label(POOL, "teaching").layout("all-1g.6gb");
    scene.nodes_are([a100("gpu-1", "all-1g.10gb"), a100("gpu-2", "all-7g.80gb"), a30]).await
}

/// Tells a story that begins when the example is applied and the fleet has
/// what it says.
fn after_the_first_commit(story: impl AsyncFnOnce(&mut Flux<'_>) -> anyhow::Result<()>) {
    scenario(async |scene| {
        lab(scene).await?;
        scene.operator().await?;
        with_flux(scene, async |flux| {
            flux.example().await?;
            // Nobody waits for a node to cool down here.
            flux.git.edit(RESEARCH, "maxUnavailable: 1", "maxUnavailable: 1\n    cooldown: 0s")?;
            flux.git.edit(TEACHING, "  layout:", "  rollout: {cooldown: 0s}\n  layout:")?;
            let revision = flux.git.commit("the lab")?;
            flux.set_up().await?;
            flux.applied(&revision).await?;
            for policy in ["research", "teaching"] {
                flux.scene.converged(policy).await?;
            }
            story(flux).await
        })
        .await
    });
}

#[test]
fn a_commit_is_applied_and_the_fleet_follows_and_a_revert_restores() {
    after_the_first_commit(async |flux| {
        // What the first commit asked for: half a GPU for somebody, and free slices for the next person.
        flux.scene.offers("gpu-3", &[("1g.6gb", 4)]).await?;
        let before = flux.scene.policies().get("teaching").await?.status.context("it has a status")?;

        flux.git.edit(TEACHING, COURSES, "slices: [{profile: 2g.12gb, count: 2}]")?;
        let revision = flux.git.commit("two halves for the seminar")?;
        flux.fetch().await?;
        flux.applied(&revision).await?;
        flux.scene.offers("gpu-3", &[("2g.12gb", 2)]).await?;
        flux.scene.converged("teaching").await?;
        let after = flux.scene.policies().get("teaching").await?.status.context("it has a status")?;
        assert_ne!(after.policy_digest, before.policy_digest);

        let revision = flux.git.revert()?;
        flux.fetch().await?;
        flux.applied(&revision).await?;
        flux.scene.offers("gpu-3", &[("1g.6gb", 4)]).await?;
        flux.scene.converged("teaching").await?;
        let restored = flux.scene.policies().get("teaching").await?.status.context("it has a status")?;
        assert_eq!(restored.policy_digest, before.policy_digest, "the same policies have the same digest");
        Ok(())
    });
}

#[test]
fn a_commit_that_the_api_server_refuses_changes_nothing_and_the_kustomization_says_the_rule() {
    after_the_first_commit(async |flux| {
        let before = policy(flux.scene, "research").await?;
        flux.git.edit(RESEARCH, "maxCount: 21", "maxCount: 2")?;
        flux.git.edit(TEACHING, COURSES, "slices: [{profile: 2g.12gb, count: 2}]")?;
        let bad = flux.git.commit("fewer than the floor")?;
        flux.fetch().await?;
        let said = flux.refused(&bad).await?;
        assert_eq!(said.reason, "ReconciliationFailed");
        for part in ["GpuPartitionPolicy/research", "minCount"] {
            assert!(said.message.contains(part), "{part}: {}", said.message);
        }
        // Nor the good half of the commit.
        assert_eq!(policy(flux.scene, "research").await?["spec"], before["spec"]);
        flux.scene.offers("gpu-3", &[("1g.6gb", 4)]).await?;

        let good = flux.git.revert()?;
        flux.fetch().await?;
        flux.applied(&good).await
    });
}

#[test]
fn a_commit_that_the_operator_refuses_fails_the_kustomization_which_names_the_policy_that_says_why() {
    after_the_first_commit(async |flux| {
        flux.git.edit(TEACHING, "1g.6gb", "3g.40gb")?;
        let bad = flux.git.commit("four halves")?;
        flux.fetch().await?;
        let said = flux.refused(&bad).await?;
        assert_eq!(said.reason, "HealthCheckFailed");
        assert!(said.message.contains("GpuPartitionPolicy/teaching status: 'Failed'"), "{}", said.message);
        let why = flux.scene.says("teaching", "Stalled", "True", "Invalid").await?;
        assert!(why.contains("4 x 3g.40gb do not fit one GPU"), "{why}");
        // What is there stays until somebody says something that can be done.
        flux.scene.offers("gpu-3", &[("1g.6gb", 4)]).await?;

        let good = flux.git.revert()?;
        flux.fetch().await?;
        flux.applied(&good).await?;
        flux.scene.converged("teaching").await
    });
}

#[test]
fn a_deletion_prunes_and_leaves_running_work_alone() {
    after_the_first_commit(async |flux| {
        flux.scene.apply(pod("student", &mig("1g.6gb"), 1)).await?;
        assert_eq!(flux.scene.runs("student").await?, "gpu-3");
        std::fs::remove_file(flux.git.work().join(TEACHING))?;
        flux.git.edit("clusters/lab/kustomization.yaml", "  - teaching.yaml\n", "")?;
        let revision = flux.git.commit("the course is over")?;
        flux.fetch().await?;
        flux.applied(&revision).await?;
        ensure!(flux.scene.policies().get_opt("teaching").await?.is_none(), "Flux did not prune the policy");
        ensure!(flux.scene.policies().get_opt("research").await?.is_some(), "Flux pruned too much");
        flux.scene
            .gpu_node("gpu-3", "belongs to no policy", |node| {
                let conditions = &node.status.as_ref()?.conditions;
                let told = conditions.iter().any(|c| c.type_ == "Ready" && c.reason == "NoPolicy");
                (told && node.spec.policy.is_none()).then_some(())
            })
            .await?;
        flux.scene.offers("gpu-3", &[("1g.6gb", 4)]).await?;
        assert_eq!(flux.scene.running().await?, ["student"]);
        Ok(())
    });
}

/// What a human does with `kubectl edit`.
async fn edit(scene: &Scene, name: &str, patch: &Value) -> anyhow::Result<()> {
    let by = PatchParams { field_manager: Some("kubectl-edit".to_owned()), ..PatchParams::default() };
    scene.policies().patch(name, &by, &Patch::Merge(patch)).await?;
    Ok(())
}

#[test]
fn what_somebody_changed_by_hand_is_put_right_and_nothing_else_is_ever_written() {
    after_the_first_commit(async |flux| {
        let before = policy(flux.scene, "research").await?;
        let by_hand = json!({"spec": {"rollout": {"maxUnavailable": 2}, "priority": 9}});
        edit(flux.scene, "research", &by_hand).await?;
        let drifted = policy(flux.scene, "research").await?;
        assert_ne!(drifted["spec"], before["spec"]);
        flux.apply_again().await?;
        let corrected = policy(flux.scene, "research").await?;
        assert_eq!(corrected["spec"], before["spec"], "what is not in Git goes, too");

        // From here on there is no difference, however often Flux looks.
        flux.scene.converged("research").await?;
        for _ in 0..3 {
            flux.apply_again().await?;
        }
        let after = policy(flux.scene, "research").await?;
        assert_eq!(after["metadata"]["generation"], corrected["metadata"]["generation"]);
        let mine = |object: &Value| {
            let managed = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
            managed.into_iter().filter(|m| m["manager"] == "kustomize-controller").collect::<Vec<_>>()
        };
        assert_eq!(mine(&after), mine(&corrected), "Flux wrote again what was there");

        // The manifest of Git, as Flux applies it, dry: it is the live object.
        let mut manifest = objects::documents(&std::fs::read_to_string(flux.git.work().join(RESEARCH))?)?;
        let mut manifest = manifest.pop().context("there is one")?;
        manifest["metadata"]["labels"] = after["metadata"]["labels"].clone();
        let params = PatchParams { dry_run: true, ..PatchParams::apply("kustomize-controller") };
        let predicted = flux.scene.policies().patch("research", &params, &Patch::Apply(&manifest)).await?;
        let mut predicted = serde_json::to_value(predicted)?;
        let mut live = policy(flux.scene, "research").await?;
        for object in [&mut predicted, &mut live] {
            object["status"] = Value::Null;
            object["metadata"]["resourceVersion"] = Value::Null;
            object["metadata"]["managedFields"] = Value::Null;
        }
        assert_eq!(predicted, live);
        Ok(())
    });
}

#[test]
fn policies_wait_for_the_operator_and_outlive_what_flux_applied_it_with() {
    scenario(async |scene| {
        lab(scene).await?;
        scene.operator().await?;
        with_flux(scene, async |flux| {
            flux.example().await?;
            let operator = std::fs::read_to_string(flux.git.work().join("operator/kustomization.yaml"))?;
            flux.git.edit("operator/kustomization.yaml", "- slicewright.yaml", "- not-there.yaml")?;
            flux.git.commit("an operator that cannot be built")?;
            flux.set_up().await?;
            flux.takes_the_source_of_the_helm_release().await?;
            flux.kustomization(OPERATOR, "cannot be built", |object| {
                object["status"]["conditions"].to_string().contains("not-there.yaml").then_some(())
            })
            .await?;
            flux.kustomization(POLICIES, "waits for the operator", |object| {
                let conditions = object["status"]["conditions"].to_string();
                (conditions.contains("DependencyNotReady") && conditions.contains(OPERATOR)).then_some(())
            })
            .await?;
            ensure!(
                flux.scene.policies().get_opt("research").await?.is_none(),
                "no policy before the operator"
            );

            flux.git.write("operator/kustomization.yaml", &operator)?;
            let revision = flux.git.commit("the operator")?;
            flux.fetch().await?;
            flux.applied(&revision).await?;
            flux.scene.converged("research").await?;
            // The role that Argo CD is bound to is one that the operator brings.
            let binding = objects::documents(RIGHTS)?.pop().context("there is a binding")?;
            let roles: Api<ClusterRole> = Api::all(flux.scene.client());
            let role = binding["roleRef"]["name"].as_str().unwrap_or_default();
            ensure!(roles.get_opt(role).await?.is_some(), "there is no ClusterRole {role}");

            // Somebody empties the operator's folder. Flux prunes what is no longer there, but no CRD: the
            // policies stay.
            flux.git.edit("operator/kustomization.yaml", "  - slicewright.yaml\n", "")?;
            let revision = flux.git.commit("the operator goes")?;
            flux.fetch().await?;
            // The role that policies were written with went, too: that is told, and nothing is pruned for it.
            let said = flux.refused(&revision).await?;
            ensure!(said.message.contains("slicewright-policy-editor"), "{}", said.message);
            let deployments: Api<Deployment> =
                Api::namespaced(flux.scene.client(), objects::OPERATOR_NAMESPACE);
            let left = deployments.get_opt(OPERATOR).await?;
            ensure!(left.is_none(), "the Deployment was not pruned, so this shows nothing");
            for name in ["research", "teaching"] {
                ensure!(flux.scene.policies().get_opt(name).await?.is_some(), "policy {name} is gone");
            }
            Ok(())
        })
        .await
    });
}
