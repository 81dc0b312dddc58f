//! The API server refuses the operator's writes until an administrator allows them: the node, the policy
//! and the user's own workbench quote the error.

use anyhow::Context;
use e2e::objects::{self, MAP_NAME, OPERATOR_USER};
use e2e::{NodeSpec, POOL, Scene, TEAM, mig, pod, policy, scenario, wait, workbench};
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::menu::{APPLICATIONS, offered, published};
use crate::queues::{QUEUE, check_says, research_queues, workloads};

const WORDS: &str = "nothing moves on Fridays";

fn eight_gpus(name: &str) -> NodeSpec {
    NodeSpec::new(name, 8, "A100-80GB").label(POOL, "research").layout("all-1g.10gb")
}

/// Objects of one kind that the API server refuses to the operator.
struct Refused {
    group: &'static str,
    resource: &'static str,
    operations: &'static [&'static str],
    /// An object of the kind, to ask with. Of a status it has to be there.
    sample: Value,
}

impl Refused {
    fn nodes() -> Self {
        let sample = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
        Self { group: "", resource: "nodes", operations: &["UPDATE"], sample }
    }

    fn maps() -> Self {
        let sample = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "sample", "namespace": "default"}});
        Self { group: "", resource: "configmaps", operations: &["CREATE", "UPDATE"], sample }
    }

    fn events() -> Self {
        let sample = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": "sample", "namespace": "default"},
            "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "reason": "Asked", "action": "Ask",
            "reportingController": "e2e", "reportingInstance": "e2e",
            "regarding": {"kind": "Namespace", "name": "default", "namespace": "default"}});
        Self { group: "events.k8s.io", resource: "events", operations: &["CREATE"], sample }
    }

    fn cluster_policies() -> Self {
        let sample = json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy",
            "metadata": {"name": "gpu-cluster-policy"}});
        Self { group: "nvidia.com", resource: "clusterpolicies", operations: &["UPDATE"], sample }
    }

    fn hardware_profiles() -> Self {
        let sample = json!({"apiVersion": "infrastructure.opendatahub.io/v1", "kind": "HardwareProfile",
            "metadata": {"name": "sample", "namespace": APPLICATIONS},
            "spec": {"identifiers": [{"displayName": "CPU", "identifier": "cpu", "minCount": 1, "defaultCount": 1}]}});
        let (group, resource) = ("infrastructure.opendatahub.io", "hardwareprofiles");
        Self { group, resource, operations: &["CREATE"], sample }
    }

    /// The statuses of workloads, of which one has this name.
    fn workloads(name: &str) -> Self {
        let sample = json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
            "metadata": {"name": name, "namespace": TEAM}});
        Self { group: "kueue.x-k8s.io", resource: "workloads/status", operations: &["UPDATE"], sample }
    }

    fn status_of(resource: &'static str, sample: Value) -> Self {
        Self { group: "slicewright.io", resource, operations: &["UPDATE"], sample }
    }

    fn is_of_a_status(&self) -> bool {
        self.resource.ends_with("/status")
    }

    fn policy(&self) -> Value {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "fridays"},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [
                    {"apiGroups": [self.group], "apiVersions": ["*"], "operations": self.operations,
                     "resources": [self.resource]}]},
                "validations": [{
                    // A write that is only tried is refused to everybody, so that a
                    // scenario can ask whether the refusal is in force.
                    "expression": format!("request.userInfo.username != '{OPERATOR_USER}' && \
                        !(has(request.dryRun) && request.dryRun)"),
                    "message": WORDS,
                }],
            },
        })
    }

    fn binding() -> Value {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "fridays"},
            "spec": {"policyName": "fridays", "validationActions": ["Deny"]},
        })
    }

    /// Begins to refuse, and returns when the API server does: it compiles a
    /// policy some time after it has stored it, and what it lets through until
    /// then would make another story.
    async fn begin(&self, scene: &Scene) -> anyhow::Result<()> {
        scene.apply(self.policy()).await?;
        scene.apply(Self::binding()).await?;
        self.settled(scene, true).await
    }

    async fn end(&self, scene: &Scene) -> anyhow::Result<()> {
        scene.delete(Self::binding()).await?;
        scene.delete(self.policy()).await?;
        self.settled(scene, false).await
    }

    async fn settled(&self, scene: &Scene, refused: bool) -> anyhow::Result<()> {
        let mut asked = self.sample.clone();
        asked["metadata"]["annotations"] = json!({"e2e.slicewright.io/asked": "true"});
        let name = asked["metadata"]["name"].as_str().context("a sample has a name")?;
        let (api, _) = objects::api_of(&scene.client(), &asked).await?;
        let what = if refused { "writes are refused" } else { "writes are allowed again" };
        wait::asking(what, wait::PATIENCE, async || {
            // Under a name of its own: what a scenario has applied under its name would be taken away, as far as nobody
            // else has it.
            let params = PatchParams::apply("e2e-asks").dry_run();
            let patch = Patch::Apply(&asked);
            let answer = match self.is_of_a_status() {
                true => api.patch_status(name, &params, &patch).await,
                false => api.patch(name, &params, &patch).await,
            };
            let is_refused = match answer {
                Ok(_) => false,
                Err(error) if error.to_string().contains(WORDS) => true,
                // Whoever waited for the end of the refusal writes at this moment
                // too, and the two may conflict: that says nothing, and is asked again.
                Err(error) => return Ok(Err(error.to_string())),
            };
            Ok(if is_refused == refused { Ok(()) } else { Err(format!("refused: {is_refused}")) })
        })
        .await
    }
}

#[test]
fn refused_writes_of_a_node_are_told_in_the_refusers_words_and_done_once_they_are_allowed() {
    scenario(async |scene| {
        scene.nodes_are(["n1", "n2", "n3"].map(eight_gpus)).await?;
        let refused = Refused::nodes();
        refused.begin(scene).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;
        scene.apply(pod("asks", &mig("3g.40gb"), 1)).await?;
        let said = scene.says("research", "Ready", "False", "WriteRefused").await?;
        let metrics = scene.operators().first().context("it was started")?.metrics().await?;
        let counted =
            |line: &str| line.starts_with("slicewright_refused_writes{") && line.contains("kind=\"Node\"");
        assert!(metrics.lines().any(counted), "the alert would not find it:\n{metrics}");
        assert!(said.contains(WORDS) && said.contains("patch Node "), "{said}");
        scene.says("research", "Stalled", "True", "WriteRefused").await?;
        let told = scene.told("Pod", "asks", WORDS).await?;
        assert!(!told.contains("at about"), "nobody knows when: {told}");
        // For longer than a write may take to be seen: nothing is given up for it.
        let name = told.split(' ').next().unwrap_or_default().to_owned();
        let ready = scene
            .gpu_node(&name, "quotes who refuses", |node| {
                let conditions = &node.status.as_ref()?.conditions;
                let ready = conditions.iter().find(|c| c.type_ == "Ready" && c.reason == "WriteRefused")?;
                Some(ready.message.clone())
            })
            .await?;
        assert!(ready.contains(WORDS), "{ready}");
        let node = scene.phase(&name, "Cordoning").await?;
        let error = node.status.and_then(|status| status.rollout).and_then(|rollout| rollout.last_error);
        assert_eq!(error, None, "a refusal is no write that was not seen");
        refused.end(scene).await?;
        scene.runs("asks").await?;
        scene.converged("research").await
    });
}

#[test]
fn refused_writes_of_the_map_are_told_by_the_policy() {
    scenario(async |scene| {
        scene.nodes_are(["n1", "n2"].map(eight_gpus)).await?;
        let refused = Refused::maps();
        refused.begin(scene).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").always(&[("3g.40gb", 2)])).await?;
        let said = scene.says("research", "Ready", "False", "WriteRefused").await?;
        assert!(said.contains(WORDS) && said.contains(MAP_NAME), "{said}");
        refused.end(scene).await?;
        for node in ["n1", "n2"] {
            scene.each_gpu_offers(node, &[("3g.40gb", 2)]).await?;
        }
        scene.converged("research").await
    });
}

#[test]
fn refused_writes_of_events_are_told_when_they_may_be() {
    scenario(async |scene| {
        scene.nodes_are(["n1", "n2"].map(eight_gpus)).await?;
        let refused = Refused::events();
        refused.begin(scene).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research")).await?;
        scene.apply(pod("asks", &mig("3g.40gb"), 1)).await?;
        scene.runs("asks").await?;
        assert_eq!(scene.story_of("Pod", "asks").await?, "", "nothing could be told");
        refused.end(scene).await?;
        scene.told("Pod", "asks", "is changed for it").await?;
        scene.converged("research").await
    });
}

fn counted(metrics: &str, kind: &str) -> bool {
    let of_kind = format!("slicewright_refused_writes{{kind=\"{kind}\"}} ");
    metrics.lines().filter_map(|line| line.strip_prefix(&of_kind)).any(|times| times != "0")
}

/// Waits until refusals of a kind are counted, or no longer.
async fn is_counted(scene: &Scene, kind: &str, wanted: bool) -> anyhow::Result<()> {
    let operator = scene.operators().first().context("it was started")?;
    wait::asking(&format!("a refused {kind} is counted: {wanted}"), wait::PATIENCE, async || {
        let metrics = operator.metrics().await?;
        Ok(if counted(&metrics, kind) == wanted { Ok(()) } else { Err(metrics) })
    })
    .await
}

#[test]
fn refused_writes_of_what_is_remembered_of_a_node_are_told_and_nothing_is_done_to_it() {
    scenario(async |scene| {
        scene.research_has(["n1", "n2"].map(eight_gpus)).await?;
        scene.converged("research").await?;
        let sample =
            json!({"apiVersion": "slicewright.io/v1alpha1", "kind": "GpuNode", "metadata": {"name": "n1"}});
        let refused = Refused::status_of("gpunodes/status", sample);
        refused.begin(scene).await?;
        scene.apply(pod("asks", &mig("3g.40gb"), 1)).await?;
        let said = scene.says("research", "Ready", "False", "WriteRefused").await?;
        assert!(said.contains(WORDS) && said.contains("GpuNode"), "{said}");
        let metrics = scene.operators().first().context("it was started")?.metrics().await?;
        assert!(counted(&metrics, "GpuNode"), "the alert would not find it:\n{metrics}");
        let writes = scene.audit()?.writes()?;
        assert!(
            writes.iter().all(|write| write.object_ref.resource != "nodes"),
            "what cannot be remembered is not done"
        );
        refused.end(scene).await?;
        scene.runs("asks").await?;
        scene.converged("research").await
    });
}

#[test]
fn refused_writes_of_a_policys_status_are_counted_and_keep_nobody_from_a_slice() {
    scenario(async |scene| {
        scene.research_has(["n1", "n2"].map(eight_gpus)).await?;
        scene.converged("research").await?;
        let sample = policy("research", "research").into();
        let refused = Refused::status_of("gpupartitionpolicies/status", sample);
        refused.begin(scene).await?;
        scene.apply(pod("asks", &mig("3g.40gb"), 1)).await?;
        scene.runs("asks").await?;
        is_counted(scene, "GpuPartitionPolicy", true).await?;
        refused.end(scene).await?;
        is_counted(scene, "GpuPartitionPolicy", false).await?;
        scene.converged("research").await
    });
}

#[test]
fn a_refusal_to_point_cluster_policy_to_the_map_of_sharing_is_told_and_no_node_is_touched_until_it_is_allowed()
 {
    scenario(async |scene| {
        let node = |name: &str| NodeSpec::new(name, 4, "T4").label(POOL, "notebooks");
        scene.nodes_are(["t1", "t2"].map(node)).await?;
        let train = pod("train", "nvidia.com/gpu", 1);
        scene.apply(train.clone()).await?;
        let busy = scene.runs("train").await?;
        let idle = if busy == "t1" { "t2" } else { "t1" };
        let refused = Refused::cluster_policies();
        refused.begin(scene).await?;
        scene.operator_with(|settings| settings.patch_device_plugin = true).await?;
        let sharing = json!({"type": "TimeSlicing", "rules": [
            {"model": "T4", "resource": "nvidia.com/gpu", "replicas": 4}]});
        let shares = policy("notebooks", "notebooks")
            .spec("/layout", json!({"type": "None"}))
            .spec("/sharing", sharing)
            .spec("/rollout/cooldown", json!("0s"));
        scene.apply(shares).await?;
        wait::asking("the refusal is quoted", scene.patience(), async || {
            let said = scene.says("notebooks", "Degraded", "True", "PluginMapNotOurs").await?;
            Ok(if said.contains(WORDS) { Ok(()) } else { Err(said) })
        })
        .await?;
        for name in ["t1", "t2"] {
            scene.offers_resources(name, &[("nvidia.com/gpu", 4)]).await?;
        }
        refused.end(scene).await?;
        scene.offers_resources(idle, &[("nvidia.com/gpu.shared", 16)]).await?;
        // Whoever trains alone on a GPU goes on to do so.
        scene.offers_resources(&busy, &[("nvidia.com/gpu", 4)]).await?;
        scene.waits_for("notebooks", "train").await?;
        scene.delete(train).await?;
        scene.offers_resources(&busy, &[("nvidia.com/gpu.shared", 16)]).await?;
        scene.converged("notebooks").await
    });
}

#[test]
fn refused_answers_of_an_admission_check_are_counted_and_given_once_they_are_allowed() {
    scenario(async |scene| {
        research_queues(scene, &[(&mig("3g.40gb"), 4)]).await?;
        scene.apply(pod("plain", "cpu", 1).labelled(QUEUE, "research")).await?;
        scene.runs("plain").await?;
        scene.converged("research").await?;
        let all = workloads(scene).await?.list(&ListParams::default()).await?.items;
        let refused = Refused::workloads(&all.first().context("the pod has a workload")?.name_any());
        refused.begin(scene).await?;
        scene.apply(workbench("lab", &mig("3g.40gb"), 1).labelled(QUEUE, "research")).await?;
        is_counted(scene, "Workload", true).await?;
        // Its slice is made all the same.
        scene.told("Pod", "lab-0", "3g.40gb is free on").await?;
        let held = check_says(scene, "lab", "Pending", "").await?;
        let said = held["message"].as_str().unwrap_or_default();
        assert!(!said.contains("3g.40gb"), "it was refused: {held}");
        refused.end(scene).await?;
        check_says(scene, "lab", "Ready", "its slices are free on").await?;
        scene.workbench_runs("lab").await?;
        is_counted(scene, "Workload", false).await?;
        scene.converged("research").await
    });
}

#[test]
fn refused_hardware_profiles_are_counted_and_published_once_they_are_allowed() {
    scenario(async |scene| {
        scene
            .apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": APPLICATIONS}}))
            .await?;
        let refused = Refused::hardware_profiles();
        refused.begin(scene).await?;
        published(scene).await?;
        is_counted(scene, "HardwareProfile", true).await?;
        let metrics = scene.operators().first().context("it was started")?.metrics().await?;
        let missing = |line: &str| {
            line.starts_with("slicewright_hardware_profiles{")
                && line.contains("state=\"missing\"")
                && !line.ends_with(" 0")
        };
        assert!(metrics.lines().any(missing), "the guide tells people to look there:\n{metrics}");
        // Who asks for a slice without a profile gets it all the same.
        scene.apply(pod("asks", &mig("3g.40gb"), 1)).await?;
        scene.runs("asks").await?;
        refused.end(scene).await?;
        offered(scene, "3g.40gb", "false").await?;
        is_counted(scene, "HardwareProfile", false).await?;
        scene.converged("research").await
    });
}
