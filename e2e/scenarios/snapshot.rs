//! `slicewright snapshot` on a live virtual fleet: a plan from the recording is the operator's plan, with
//! and without names; and the permissions of its role suffice.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use cli::exit::Status;
use e2e::manifests::of_neighbours;
use e2e::objects::OPERATOR_NAMESPACE;
use e2e::{NodeSpec, POOL, Scene, TEAM, mig, objects, pod, policy, scenario, wait, workbench};
use serde_json::{Value, json};
use tempfile::TempDir;

/// What a command line said: its status, its output, and its messages.
struct Output {
    status: Status,
    out: String,
    err: String,
}

/// Runs the command in this process, beside everything else that goes on.
async fn slicewright(words: Vec<OsString>) -> anyhow::Result<Output> {
    let ran = tokio::task::spawn_blocking(move || {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let line = std::iter::once(OsString::from("slicewright")).chain(words);
        let status = cli::run(line, &mut out, &mut err);
        (status, out, err)
    });
    let (status, out, err) = ran.await?;
    Ok(Output { status, out: String::from_utf8(out)?, err: String::from_utf8(err)? })
}

/// The preview of policies on a recorded fleet.
async fn preview(fleet: &Path, policies: &Path) -> anyhow::Result<Value> {
    let words = ["plan", "-o", "json", "--fleet"].map(OsString::from).into_iter();
    let said = slicewright(words.chain([fleet.into(), "-f".into(), policies.into()]).collect()).await?;
    serde_json::from_str(&said.out).with_context(|| said.err)
}

/// Somebody who may record and nothing else: `deploy/snapshot-role.yaml`, with
/// its names.
const RECORDER: &str = "slicewright-snapshot";

/// A fleet's recording and the policies that it is planned with, in a folder.
pub(crate) struct Recorder {
    folder: TempDir,
    kubeconfig: PathBuf,
}

impl Recorder {
    /// With the rights of the shipped role.
    pub(crate) async fn new(scene: &Scene) -> anyhow::Result<Self> {
        let role = include_str!("../../deploy/snapshot-role.yaml");
        for manifest in objects::documents(role)? {
            objects::apply(&scene.client(), &manifest).await?;
        }
        Self::with_account(scene, RECORDER).await
    }

    async fn with_account(scene: &Scene, account: &str) -> anyhow::Result<Self> {
        let folder = TempDir::new()?;
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, serde_saphyr::to_string(&scene.kubeconfig_of(account).await?)?)?;
        Ok(Self { folder, kubeconfig })
    }

    pub(crate) fn fleet(&self) -> PathBuf {
        self.folder.path().join("fleet.yaml")
    }

    /// Records with these further words.
    async fn try_record(&self, more: &[&str]) -> anyhow::Result<Output> {
        let mut words: Vec<OsString> = vec!["snapshot".into()];
        words.extend(["--kubeconfig".into(), self.kubeconfig.clone().into()]);
        words.extend(["-o".into(), self.fleet().into()]);
        words.extend(more.iter().map(OsString::from));
        slicewright(words).await
    }

    pub(crate) async fn record(&self, more: &[&str]) -> anyhow::Result<String> {
        let said = self.try_record(more).await?;
        ensure!(said.status == Status::Success, "{:?}: {}", said.status, said.err);
        Ok(std::fs::read_to_string(self.fleet())?)
    }

    /// The preview of policies on the recording.
    pub(crate) async fn plan(&self, policies: &[Value]) -> anyhow::Result<Value> {
        let file = self.folder.path().join("policies.yaml");
        let texts: Vec<String> = policies.iter().map(ToString::to_string).collect();
        std::fs::write(&file, texts.join("\n---\n"))?;
        preview(&self.fleet(), &file).await
    }

    /// What is explained of the live cluster.
    pub(crate) async fn explains(&self, what: &str, name: &str) -> anyhow::Result<Value> {
        let mut words: Vec<OsString> = ["explain", what, name, "-o", "json"].map(OsString::from).into();
        words.extend(["--kubeconfig".into(), self.kubeconfig.clone().into()]);
        let said = slicewright(words).await?;
        ensure!(said.status == Status::Success, "{:?}: {}", said.status, said.err);
        serde_json::from_str(&said.out).with_context(|| said.err)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// What the operator says of its plan, once it is this one.
async fn operator_says(scene: &Scene, name: &str, preview: &Value) -> anyhow::Result<()> {
    let from = &preview["provenance"];
    let wanted =
        [&from["policyDigest"], &from["planDigest"]].map(|digest| digest.as_str().unwrap_or_default());
    let what = format!("{name} has the digests of the preview, {wanted:?}");
    wait::until_one(scene.policies(), name, &what, wait::PATIENCE, |policy| {
        let status = policy.and_then(|policy| policy.status.as_ref()).ok_or("there is no status")?;
        let found = [&status.policy_digest, &status.plan_digest].map(|d| d.as_deref().unwrap_or_default());
        if found == wanted { Ok(()) } else { Err(format!("it has {found:?}")) }
    })
    .await
}

#[test]
fn a_plan_from_the_recording_is_the_operators_plan_with_names_and_without() {
    scenario(async |scene| {
        let node =
            |name: &str| NodeSpec::new(name, 2, "A100-80GB").label(POOL, "research").layout("all-1g.10gb");
        scene.nodes_are([node("n1"), node("n2")]).await?;
        scene.apply(pod("heron", &mig("1g.10gb"), 1)).await?;
        scene.runs("heron").await?;
        scene.apply(workbench("kestrel", &mig("3g.40gb"), 1)).await?;
        scene.is_unschedulable("kestrel-0").await?;
        let fixed: Value = policy("research", "research").always(&[("3g.40gb", 2)]).mode("Preview").into();
        let recorder = Recorder::new(scene).await?;

        // Before anything of ours says a word.
        let text = recorder.record(&[]).await?;
        ensure!(text.contains("\"heron\"") && text.contains("recordedBy"), "{text}");
        let before = recorder.plan(std::slice::from_ref(&fixed)).await?;
        ensure!(before["verdict"]["gpus"].as_u64().is_some_and(|gpus| gpus >= 2), "{before:#}");
        scene.operator().await?;
        scene.apply(fixed.clone()).await?;
        operator_says(scene, "research", &before).await?;

        // And without names: the plan is the same, and nobody is in the file.
        let text = recorder.record(&["--redact"]).await?;
        for name in ["heron", "kestrel", TEAM] {
            ensure!(!text.contains(name), "{name} is left: {text}");
        }
        let hidden = recorder.plan(std::slice::from_ref(&fixed)).await?;
        assert_eq!(hidden["provenance"]["planDigest"], before["provenance"]["planDigest"]);
        operator_says(scene, "research", &hidden).await?;

        // By demand, too, where nobody has moved.
        let demand: Value = policy("research", "research").mode("Preview").into();
        scene.apply(demand.clone()).await?;
        let by_demand = recorder.plan(&[demand]).await?;
        operator_says(scene, "research", &by_demand).await
    });
}

#[test]
fn who_lacks_rights_is_told_all_of_them_and_nothing_is_written() {
    scenario(async |scene| {
        // Whether Kueue is served depends on what lies beside the repository; what is not served is not asked for.
        let of_kueue: Vec<_> = objects::foreign_crds()?
            .into_iter()
            .filter(|crd| crd["spec"]["group"] == "kueue.x-k8s.io")
            .collect();
        scene.remove_crds(&of_kueue).await?;
        scene.nodes_are([NodeSpec::new("n1", 1, "A100-80GB").label(POOL, "research")]).await?;
        let nobody = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "nobody", "namespace": OPERATOR_NAMESPACE},
        });
        scene.apply(nobody).await?;
        let recorder = Recorder::with_account(scene, "nobody").await?;
        std::fs::write(recorder.fleet(), "the one before")?;
        let said = recorder.try_record(&[]).await?;
        assert_eq!(said.status, Status::Negative);
        insta::assert_snapshot!(said.err, @r"
        error: nothing was read, since these permissions are missing:
          get jobs.batch
          get replicasets.apps
          get statefulsets.apps
          list clusterpolicies.nvidia.com
          list configmaps in namespace nvidia-gpu-operator
          list gpuclusters.nvidia.com
          list gpunodes.slicewright.io
          list gpupartitionpolicies.slicewright.io
          list hardwareprofiles.infrastructure.opendatahub.io
          list inferenceservices.serving.kserve.io
          list llminferenceservices.serving.kserve.io
          list namespaces
          list nodes
          list notebooks.kubeflow.org
          list persistentvolumeclaims
          list persistentvolumes
          list pods
          list priorityclasses.scheduling.k8s.io
        A role with the necessary permissions is deploy/snapshot-role.yaml.
        ");
        assert_eq!(std::fs::read_to_string(recorder.fleet())?, "the one before");
        let left: Vec<_> = std::fs::read_dir(recorder.path())?.collect::<Result<_, _>>()?;
        assert_eq!(left.len(), 2, "no half file is left: {left:?}");
        Ok(())
    });
}

/// `examples/policy-repo/fleets/lab.yaml` is what this records; `UPDATE=1`
/// writes it anew. Times differ from one recording to the next, so the two are
/// held to the same digests: of the nodes, of the demand, and of the plan.
#[test]
fn the_fleet_of_the_example_is_the_recording_of_a_virtual_one() {
    scenario(async |scene| {
        let node = |name: &str, layout: &str| {
            NodeSpec::new(name, 2, "A100-80GB").label(POOL, "research").layout(layout)
        };
        let teaching = NodeSpec::new("gpu-3", 1, "A30").label(POOL, "teaching").layout("all-1g.6gb");
        scene.nodes_are([node("gpu-1", "all-1g.10gb"), node("gpu-2", "all-7g.80gb"), teaching]).await?;
        // One workbench runs, three people wait.
        scene.apply(workbench("churn", &mig("1g.10gb"), 1)).await?;
        scene.workbench_runs("churn").await?;
        scene.apply(workbench("fraud-lab", &mig("3g.40gb"), 1)).await?;
        scene.is_unschedulable("fraud-lab-0").await?;
        scene.apply(workbench("forecast", &mig("2g.20gb"), 1)).await?;
        scene.is_unschedulable("forecast-0").await?;
        scene.apply(pod("pretrain", &mig("4g.40gb"), 1).of_neighbours()).await?;
        scene.is_unschedulable(&of_neighbours("pretrain")).await?;
        let recorder = Recorder::new(scene).await?;
        let text = recorder.record(&["--redact", "--keep-namespace", TEAM, "--name", "lab"]).await?;
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/policy-repo");
        let committed = example.join("fleets/lab.yaml");
        #[expect(clippy::disallowed_methods, reason = "a test's switch, not configuration")]
        if std::env::var("UPDATE").is_ok() {
            std::fs::write(&committed, &text)?;
        }
        let policies = example.join("clusters/lab");
        let (found, fresh) =
            (preview(&committed, &policies).await?, preview(&recorder.fleet(), &policies).await?);
        assert_eq!(found["provenance"]["annotations"], fresh["provenance"]["annotations"]);
        let committed = std::fs::read_to_string(&committed)?;
        for part in ["\"recordedBy\":\"slicewright ", "\"redacted\":{\"keptNamespaces\":[\"team-a\"]}"] {
            ensure!(committed.contains(part) && text.contains(part), "it is a recording: {part}");
        }
        Ok(())
    });
}
