//! A release, rehearsed: a clone of this repository is given a home, released, and published to a registry on this
//! machine; then Helm installs the chart from there without a value, and `opm` reads the catalog. Published once
//! more, everything has the same digest.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, bail, ensure};
use e2e::control_plane::{ControlPlane, client_of};
use e2e::objects::{self, GPU_OPERATOR_NAMESPACE, OPERATOR_NAMESPACE};
use e2e::process::{Den, Running};
use e2e::{ports, wait};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use packaging::{Helm, Render};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The version that is rehearsed: later than any.
const VERSION: &str = "999.0.0";

/// A home that is not a placeholder, and nobody's.
const PROJECT: &str = "repository: https://forge.rehearsal.dev/slicewright/slicewright
registry: registry.rehearsal.dev/slicewright
maintainer: {name: Rehearsal, email: maintainers@rehearsal.dev}
security: security@rehearsal.dev
placeholders: []
";

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?} ended with {}:\n{}", output.status, said(&output));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A clone of what is committed.
struct Clone {
    folder: TempDir,
}

impl Clone {
    fn new() -> anyhow::Result<Self> {
        let folder = TempDir::new()?;
        let clone = Self { folder };
        run(Command::new("git")
            .args(["clone", "--quiet", "--no-hardlinks"])
            .arg(packaging::root())
            .arg(clone.root()))?;
        clone.git(&["config", "user.name", "Rehearsal"])?;
        clone.git(&["config", "user.email", "maintainers@rehearsal.dev"])?;
        Ok(clone)
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("slicewright")
    }

    fn git(&self, words: &[&str]) -> anyhow::Result<String> {
        run(Command::new("git").args(words).current_dir(self.root()))
    }

    /// `cargo xtask` of the clone, with a target folder of its own. In ours cargo would take its crates for the same, and,
    /// since they are newer, leave us programs whose sources are gone; the next rehearsal finds the dependencies built.
    fn xtask(&self, words: &[&str]) -> Command {
        let mut command = Command::new("cargo");
        command.args(["run", "--quiet", "--locked", "--package", "xtask", "--"]).args(words);
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap_or(Path::new("target"));
        command.current_dir(self.root()).env("CARGO_TARGET_DIR", target.join("rehearsal")).env("CI", "");
        command
    }
}

/// A registry of its own, which forgets everything when it ends.
struct Registry {
    // Its processes end with it.
    den: Den,
    process: Running,
    address: String,
}

impl Registry {
    async fn start() -> anyhow::Result<Self> {
        let address = format!("127.0.0.1:{}", ports::free()?);
        Self::serve(Den::new()?, address).await
    }

    /// Another one at the same address, with nothing in it.
    async fn emptied(self) -> anyhow::Result<Self> {
        let Self { den, process, address } = self;
        // It has ended then: one that is still ending would answer for the new one, which cannot have the address.
        den.stop(process)?;
        Self::serve(den, address).await
    }

    async fn serve(den: Den, address: String) -> anyhow::Result<Self> {
        let mut command = Command::new(tools::find("crane")?);
        command.args(["registry", "serve", "--address", &address]);
        let mut process = den.start("registry", command)?;
        wait::asking("the registry listens", wait::PATIENCE, async || {
            if let Some(status) = process.ended()? {
                bail!("the registry at {address} ended with {status}: {}", process.last_words());
            }
            Ok(tokio::net::TcpStream::connect(&address).await.map(drop).map_err(|error| error.to_string()))
        })
        .await?;
        Ok(Self { den, process, address })
    }

    fn prefix(&self) -> String {
        format!("{}/slicewright", self.address)
    }
}

/// Publishes the clone; the digests by name, without the registry.
fn published(clone: &Clone, registry: &Registry, out: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let folder = out.to_str().context("a folder's name is text")?;
    let prefix = registry.prefix();
    run(&mut clone.xtask(&[
        "publish",
        "--quick",
        "--insecure",
        "--registry",
        &prefix,
        "--out",
        folder,
        "--system",
        "linux-amd64",
    ]))?;
    let text = std::fs::read_to_string(out.join("digests.txt"))?;
    let digests = text.lines().filter_map(|line| line.split_once('@'));
    Ok(digests.map(|(name, digest)| (name.replace(&prefix, ""), digest.to_owned())).collect())
}

/// The second half of the rehearsal publishes to it.
#[test]
fn a_registry_that_was_emptied_is_there_at_the_same_address() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut registry = Registry::start().await.unwrap();
        let address = registry.address.clone();
        for _ in 0..10 {
            // Whoever has talked to it may hold a connection.
            let _held = tokio::net::TcpStream::connect(&address).await.unwrap();
            registry = registry.emptied().await.unwrap();
            assert_eq!(registry.address, address);
            assert!(registry.process.ended().unwrap().is_none());
        }
    });
}

#[test]
fn a_release_is_made_by_one_command_and_installed_from_a_registry_and_made_twice_it_is_the_same() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
    let told = runtime.block_on(rehearse());
    runtime.shutdown_background();
    told.unwrap_or_else(|error| panic!("{error:?}"));
}

async fn rehearse() -> anyhow::Result<()> {
    let clone = Clone::new()?;
    // As it is, it has no home: nothing is released, and nothing is written.
    let refused = clone.xtask(&["release", VERSION]).output()?;
    ensure!(!refused.status.success(), "a release with placeholders: {}", said(&refused));
    ensure!(said(&refused).contains("packaging/project.yaml still has placeholders"), "{}", said(&refused));
    ensure!(clone.git(&["status", "--porcelain"])?.is_empty(), "it wrote something");

    std::fs::write(clone.root().join("packaging/project.yaml"), PROJECT)?;
    let early = clone.xtask(&["release", VERSION]).output()?;
    ensure!(said(&early).contains("changes that are not committed"), "{}", said(&early));
    clone.git(&["commit", "--quiet", "--all", "--message", "A home"])?;
    run(&mut clone.xtask(&["release", VERSION, "--quick", "--date", "2026-12-24"]))?;
    clone.git(&["add", "--all"])?;
    clone.git(&["commit", "--quiet", "--message", "Release"])?;
    let bundle = std::fs::read_to_string(
        clone.root().join("olm-bundle/manifests/slicewright.clusterserviceversion.yaml"),
    )?;
    ensure!(bundle.contains(&format!("name: slicewright.v{VERSION}")), "the bundle has another version");
    ensure!(
        clone.git(&["grep", "-c", "github.com/slicewright/slicewright", "--", "Cargo.toml", "docs"]).is_err()
    );
    let checkout = clone.root().join("charts/slicewright");
    let rendered = Helm::find()?.text(&checkout, &Render::default())?;
    let image = format!("image: registry.rehearsal.dev/slicewright/slicewright:{VERSION}\n");
    ensure!(rendered.contains(&image), "the chart of the released checkout does not have {image}");
    says_that_it_is_published(&checkout)?;

    let registry = Registry::start().await?;
    let folder = TempDir::new()?;
    let first = published(&clone, &registry, &folder.path().join("first"))?;
    ensure!(first.len() == 7, "{first:?}");
    let chart = format!("slicewright-{VERSION}.tgz");
    run(Command::new("tar")
        .arg("-xzf")
        .arg(folder.path().join("first/files").join(chart))
        .arg("-C")
        .arg(folder.path()))?;
    let archive = folder.path().join("slicewright");
    Helm::find()?.text(&archive, &Render::default())?;
    says_that_it_is_published(&archive)?;
    helm_installs(&registry, &first).await?;
    opm_reads(&registry, &first)?;
    is_signed(&registry, &first, &folder.path().join("first"))?;

    // Once more, to a registry with nothing in it: names and digests are the same, and so is what people download.
    let registry = registry.emptied().await?;
    let second = published(&clone, &registry, &folder.path().join("second"))?;
    ensure!(first == second, "{first:?}\n{second:?}");
    let sums = |which: &str| std::fs::read_to_string(folder.path().join(which).join("files/SHA256SUMS"));
    let (one, two) = (sums("first")?, sums("second")?);
    ensure!(one == two && one.lines().count() >= 6, "{one}\n{two}");
    // Who installs the command for a job has to copy no digest.
    let archive = format!("slicewright-v{VERSION}-linux-amd64.tar.gz");
    let digest = one.lines().find_map(|line| line.strip_suffix(&archive)).unwrap_or("no digest").trim();
    let script = std::fs::read_to_string(folder.path().join("first/files/install.sh"))?;
    for line in [format!("VERSION={VERSION}"), format!("SHA256_AMD64={digest}")] {
        ensure!(script.contains(&format!("\n{line}\n")), "install.sh has no line {line}:\n{script}");
    }
    Ok(())
}

/// What is true only until there is a release.
const NOT_PUBLISHED: [&str; 2] = ["published yet", "until images are published"];

/// Neither its values nor its page nor an error of the chart says that there is no image.
fn says_that_it_is_published(chart: &Path) -> anyhow::Result<()> {
    for file in packaging::archives::below(chart, "chart")? {
        let text = String::from_utf8_lossy(&file.content);
        for words in NOT_PUBLISHED {
            ensure!(!text.contains(words), "{} says {words:?}", file.path);
        }
    }
    Ok(())
}

/// Helm installs what is in the registry, without a single value.
async fn helm_installs(registry: &Registry, published: &[(String, String)]) -> anyhow::Result<()> {
    let plane = ControlPlane::start("nobody").await?;
    let client = client_of(plane.administrator()).await?;
    objects::ensure_namespace(&client, GPU_OPERATOR_NAMESPACE, &json!({})).await?;
    let helm = Helm::find()?;
    let mut install = helm.command();
    install.args(["install", "slicewright"]).arg(format!("oci://{}/charts/slicewright", registry.prefix()));
    install.args([
        "--version",
        VERSION,
        "--plain-http",
        "--namespace",
        OPERATOR_NAMESPACE,
        "--create-namespace",
    ]);
    install.arg("--kubeconfig").arg(plane.kubeconfig());
    let told = tokio::task::spawn_blocking(move || run(&mut install)).await??;
    ensure!(told.contains("It changes nothing until there is a policy"), "{told}");
    ensure!(!NOT_PUBLISHED.iter().any(|words| told.contains(words)), "{told}");
    let deployments: Api<Deployment> = Api::namespaced(client, OPERATOR_NAMESPACE);
    let spec = deployments.get("slicewright").await?.spec.context("a Deployment has a spec")?;
    let pod = spec.template.spec.context("a template has a spec")?;
    let image = pod.containers[0].image.clone().unwrap_or_default();
    let (_, digest) =
        published.iter().find(|(name, _)| name == "/slicewright").context("there is an image")?;
    ensure!(image == format!("{}/slicewright@{digest}", registry.prefix()), "{image}");
    Ok(())
}

/// `opm` unpacks both images, and the catalog offers the bundle by its digest.
fn opm_reads(registry: &Registry, published: &[(String, String)]) -> anyhow::Result<()> {
    let opm = tools::find("opm")?;
    // What it may pull, which a machine with podman has said: here anything, from this registry alone.
    let home = TempDir::new()?;
    let containers = home.path().join(".config/containers");
    std::fs::create_dir_all(&containers)?;
    std::fs::write(containers.join("policy.json"), r#"{"default": [{"type": "insecureAcceptAnything"}]}"#)?;
    let rendered = |name: &str| {
        let (_, digest) = published.iter().find(|(found, _)| found == name).context("it is published")?;
        let image = format!("{}{name}@{digest}", registry.prefix());
        let mut render = Command::new(&opm);
        // In the form that the catalog has, for OpenShift 4.17 and newer.
        render.args(["render", &image, "--migrate-level", "bundle-object-to-csv-metadata"]);
        render.args(["--output", "json", "--use-http"]).env("HOME", home.path());
        let text = run(&mut render)?;
        let documents = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        Ok::<_, anyhow::Error>((image, documents.collect::<Result<Vec<_>, _>>()?))
    };
    let (bundle, alone) = rendered("/slicewright-bundle")?;
    ensure!(alone.len() == 1 && alone[0]["name"] == format!("slicewright.v{VERSION}"), "{alone:?}");
    let (_, catalog) = rendered("/slicewright-catalog")?;
    let offered =
        catalog.iter().find(|document| document["schema"] == "olm.bundle").context("it has a bundle")?;
    ensure!(offered["image"] == bundle, "{}", offered["image"]);
    ensure!(offered["properties"] == alone[0]["properties"], "the catalog says something else of the bundle");
    Ok(())
}

/// A registry on localhost speaks plain HTTP.
const HERE: [&str; 2] = ["--allow-http-registry", "--allow-insecure-registry"];

/// What the workflow does in its own name is done here with a key: everything is signed by its digest, and says where it
/// comes from; with another key nothing is.
fn is_signed(registry: &Registry, published: &[(String, String)], dist: &Path) -> anyhow::Result<()> {
    let cosign = || -> anyhow::Result<Command> {
        let mut command = Command::new(tools::find("cosign")?);
        command.current_dir(dist).env("COSIGN_PASSWORD", "").env("HOME", dist);
        Ok(command)
    };
    for key in ["ours", "other"] {
        run(cosign()?.args(["generate-key-pair", "--output-key-prefix", key]))?;
    }
    // Without a transparency log: there is none here.
    run(cosign()?.args(["signing-config", "create", "--out", "none.json"]))?;
    let script = packaging::root().join("packaging/release/sign.sh");
    let mut sign = Command::new("bash");
    sign.arg(script)
        .arg(dist)
        .args(["--key", "ours.key", "--signing-config", "none.json"])
        .args(HERE)
        .current_dir(dist);
    run(sign.env("COSIGN", tools::find("cosign")?).env("COSIGN_PASSWORD", "").env("HOME", dist))?;
    let asked = |words: &[&str], key: &str, image: &str| -> anyhow::Result<String> {
        run(cosign()?.args(words).args(["--key", key, "--insecure-ignore-tlog"]).args(HERE).arg(image))
    };
    for (name, digest) in published {
        let image = format!("{}{name}@{digest}", registry.prefix());
        asked(&["verify"], "ours.pub", &image)?;
        ensure!(asked(&["verify"], "other.pub", &image).is_err(), "{image} is signed with any key");
        asked(&["verify-attestation", "--type", "slsaprovenance1"], "ours.pub", &image)?;
        if ["/slicewright", "/must-gather", "/agent"].contains(&name.as_str()) {
            asked(&["verify-attestation", "--type", "cyclonedx"], "ours.pub", &image)?;
        }
    }
    Ok(())
}
