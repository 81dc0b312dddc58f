//! The tutorial, as a reader follows it: real kubectl and Helm and our command, on a cluster with GPUs that
//! nobody has cut yet. No kubelet runs here, so the test does what the chart's pods would: it runs the
//! operator with the token of the chart's service account.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};
use cluster::{Cluster, Fleet, NodeSpec};
use e2e::control_plane::{ControlPlane, client_of};
use e2e::objects::{self, GPU_OPERATOR_NAMESPACE};
use e2e::operator::{self, Operator, SPEED};
use e2e::page::{self, Step};
use e2e::{pod, wait};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client};
use operands::Strategy;
use packaging::Helm;
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// The account that the chart makes.
const RELEASE: &str = "slicewright";
/// The operator, as the API server knows it.
const USER: &str = "system:serviceaccount:slicewright-system:slicewright";
/// Namespaces that OpenShift AI and the GPU Operator have made.
const THEIRS: [&str; 3] = [GPU_OPERATOR_NAMESPACE, "redhat-ods-applications", "training"];

fn root() -> PathBuf {
    packaging::root()
}

/// The cluster that the page begins with: GPUs that are whole, strategy `single`, and somebody who trains.
fn fleet() -> Fleet {
    let node = |name| NodeSpec::new(name, 8, "A100-80GB");
    Fleet {
        strategy: Strategy::Single,
        speed: SPEED,
        nodes: vec![node("gpu-1"), node("gpu-2")],
        ..Fleet::default()
    }
}

struct Reader {
    plane: ControlPlane,
    client: Client,
    helm: Helm,
    operator: Option<Operator>,
}

impl Reader {
    /// Runs a command of the page; what it printed, errors included.
    async fn runs(&mut self, step: &Step) -> anyhow::Result<String> {
        let (program, words) = step.words.split_first().context("a command has a first word")?;
        let mut command = match program.as_str() {
            "kubectl" => Command::new(tools::find("kubectl")?),
            "helm" => self.helm.command(),
            "slicewright" => return self.slicewright(step).await,
            other => anyhow::bail!("line {}: the test knows no {other}", step.line),
        };
        command.args(words).current_dir(root()).env("KUBECONFIG", self.plane.kubeconfig());
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        ensure!(output.status.success(), "line {}: {:?}: {said}", step.line, step.words);
        if program == "helm" && words.iter().any(|word| word == "install") {
            let config = operator::account_of(self.plane.administrator(), RELEASE).await?;
            self.operator = Some(Operator::start(config, operator::settings("tutorial"))?);
        }
        Ok(said)
    }

    /// Our command, in this process.
    async fn slicewright(&self, step: &Step) -> anyhow::Result<String> {
        let mut line: Vec<OsString> = step
            .words
            .iter()
            .map(|word| if word.starts_with("examples/") { root().join(word).into() } else { word.into() })
            .collect();
        line.extend(["--kubeconfig".into(), self.plane.kubeconfig().into()]);
        let said = tokio::task::spawn_blocking(move || {
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let status = cli::run(line, &mut out, &mut err);
            (status, [out, err].concat())
        });
        let (status, said) = said.await?;
        let said = String::from_utf8(said)?;
        // A plan that changes something has a status of its own.
        let good = [cli::exit::Status::Success, cli::exit::Status::Changes];
        ensure!(good.contains(&status), "line {}: {status:?}: {said}", step.line);
        Ok(said)
    }

    /// What runs before the first line of the page: a job on two GPUs of the first node.
    async fn somebody_trains(&self) -> anyhow::Result<()> {
        let job = pod("llm-finetune", "nvidia.com/gpu", 2)
            .in_namespace("training")
            .with("/spec/nodeSelector", json!({"kubernetes.io/hostname": "gpu-1"}));
        objects::apply(&self.client, &job.into()).await?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "training");
        wait::until_one(pods, "llm-finetune", "the job runs", wait::PATIENCE, |pod| {
            let phase = pod.and_then(|pod| pod.status.as_ref()?.phase.as_deref());
            (phase == Some("Running")).then_some(()).ok_or_else(|| format!("{phase:?}"))
        })
        .await
    }
}

#[test]
fn every_command_of_the_tutorial_prints_what_it_says_from_whole_gpus_to_a_workbench_on_a_slice() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
    let told = runtime.block_on(follow());
    runtime.shutdown_background();
    told.unwrap_or_else(|error| panic!("{error:?}"));
}

async fn follow() -> anyhow::Result<()> {
    let page = std::fs::read_to_string(root().join("docs/tutorial.md"))?;
    let steps = page::steps(&page)?;
    ensure!(steps.len() > 15, "the tutorial has only {} commands", steps.len());
    let plane = ControlPlane::start(USER).await?;
    let client = client_of(plane.administrator()).await?;
    objects::install_crds(&client, &objects::foreign_crds()?).await?;
    for namespace in THEIRS {
        objects::ensure_namespace(&client, namespace, &json!({})).await?;
    }
    let shutdown = CancellationToken::new();
    let nodes = tokio::spawn(Cluster::new(client.clone(), fleet(), shutdown.clone())?.run());
    let all: Api<Node> = Api::all(client.clone());
    wait::until(all, "every node offers its GPUs", wait::PATIENCE, |seen| {
        let offers = |node: &Node| {
            let gpus = node.status.as_ref()?.allocatable.as_ref()?.get("nvidia.com/gpu")?;
            Some(gpus.0 == "8")
        };
        let ready = seen.values().filter(|node| offers(node) == Some(true)).count();
        if ready == 2 { Ok(()) } else { Err(format!("{ready} of 2 do")) }
    })
    .await?;
    let mut reader = Reader { plane, client, helm: Helm::find()?, operator: None };
    reader.somebody_trains().await?;
    let mut wrong = Vec::new();
    for step in &steps {
        let said = reader.runs(step).await.with_context(|| wrong.join("\n"))?;
        wrong.extend(step.differs(&said));
    }
    ensure!(wrong.is_empty(), "docs/tutorial.md\n{}", wrong.join("\n"));
    // Nobody who worked before has lost anything.
    let pods: Api<Pod> = Api::namespaced(reader.client.clone(), "training");
    let job = pods.get("llm-finetune").await?;
    ensure!(job.metadata.deletion_timestamp.is_none(), "the job is being deleted");
    if let Some(operator) = reader.operator {
        operator.stop().await?;
    }
    shutdown.cancel();
    nodes.await??;
    Ok(())
}
