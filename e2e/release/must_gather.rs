//! The image for `oc adm must-gather`, as it is published: its files are the root of a process, which runs what `oc` runs in
//! it against a live virtual fleet; then they are copied as `oc` copies them.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use e2e::{a100, mig, policy, scenario, workbench};
use serde_json::Value;
use tempfile::TempDir;

/// What is told of somebody else's secret: it must be in no file.
const SECRET: &str = "do-not-tell-anybody";

fn run(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}:\n{said}", output.status);
    Ok(output.stdout)
}

fn json(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is no JSON", path.display()))
}

/// Builds the image, and unpacks its layers in their order.
fn unpacked(folder: &Path) -> anyhow::Result<std::path::PathBuf> {
    let images = folder.join("images");
    let mut build = Command::new("cargo");
    build.args([
        "run",
        "--quiet",
        "--locked",
        "--package",
        "xtask",
        "--",
        "image",
        "must-gather",
        "--quick",
        "--out",
    ]);
    run(build.arg(&images).current_dir(packaging::root()))?;
    let layout = images.join("must-gather");
    let blob = |descriptor: &Value| -> anyhow::Result<std::path::PathBuf> {
        let digest = descriptor["digest"].as_str().context("a descriptor has a digest")?;
        Ok(layout.join("blobs").join(digest.replace(':', "/")))
    };
    let index = json(&layout.join("index.json"))?;
    let manifest = json(&blob(&index["manifests"][0])?)?;
    let config = json(&blob(&manifest["config"])?)?;
    ensure!(config["config"]["Entrypoint"][0] == "/usr/bin/gather", "{config}");
    let root = folder.join("root");
    std::fs::create_dir(&root)?;
    for layer in manifest["layers"].as_array().context("a manifest has layers")? {
        run(Command::new("tar")
            .args(["--extract", "--gzip", "--file"])
            .arg(blob(layer)?)
            .arg("--directory")
            .arg(&root))?;
    }
    Ok(root)
}

/// A program with nothing around it but the image, and the network.
fn inside(root: &Path, script: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--root"]).arg(root).args(["--wd=/", "/bin/bash", "-c", script]);
    command.env_clear().env("PATH", "/usr/bin").env("KUBECONFIG", "/kubeconfig");
    command
}

#[test]
fn the_image_for_must_gather_collects_from_a_live_fleet_what_a_maintainer_asks_for_first() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb"), a100("n2", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").at_a_time(2)).await?;
        scene.apply(workbench("fraud-lab", &mig("3g.40gb"), 1)).await?;
        scene.workbench_runs("fraud-lab").await?;
        scene.converged("research").await?;
        let secret = serde_json::json!({
            "apiVersion": "v1", "kind": "Secret", "stringData": {"password": SECRET},
            "metadata": {"name": "theirs", "namespace": e2e::objects::OPERATOR_NAMESPACE},
        });
        e2e::objects::apply(&scene.client(), &secret).await?;
        let kubeconfig = serde_saphyr::to_string(scene.administrator())?;
        tokio::task::spawn_blocking(move || gathered(&kubeconfig)).await??;
        scene.converged("research").await
    });
}

/// Everything with the file system: it takes its time, and nobody waits beside it.
fn gathered(kubeconfig: &str) -> anyhow::Result<()> {
    let folder = TempDir::new()?;
    let root = unpacked(folder.path())?;
    std::fs::write(root.join("kubeconfig"), kubeconfig)?;
    // The volume that both containers of the pod have.
    std::fs::DirBuilder::new().mode(0o777).create(root.join("must-gather"))?;
    run(&mut inside(&root, "setsid --wait bash <<END\n/usr/bin/gather\nEND\nstatus=$?; sync; exit $status"))?;
    let copied = folder.path().join("must-gather.tar");
    let tar = run(&mut inside(&root, "tar --create --directory /must-gather ."))?;
    std::fs::write(&copied, tar)?;
    let to = folder.path().join("administrator");
    std::fs::create_dir(&to)?;
    run(Command::new("tar").args(["--extract", "--file"]).arg(&copied).arg("--directory").arg(&to))?;

    let read = |name: &str| {
        std::fs::read_to_string(to.join(name))
            .with_context(|| format!("there is no {name} in what was copied"))
    };
    let version = read("version")?;
    let expected = format!("slicewright\nslicewright {}\n", env!("CARGO_PKG_VERSION"));
    ensure!(version == expected, "{version}");
    for (file, says) in [
        ("fleet.txt", "n1"),
        ("fleet.yaml", "kind: Snapshot"),
        ("plan.txt", "0 violations"),
        ("policies.json", "\"research\""),
        ("gpunodes.json", "\"n2\""),
        ("events.json", "fraud-lab-0"),
        ("map.json", "slicewright-mig-config"),
        ("operator/leases.json", "holderIdentity"),
        ("version.json", "gitVersion"),
    ] {
        let text = read(&format!("slicewright/{file}"))?;
        ensure!(text.contains(says), "{file} does not say {says}:\n{text}");
    }
    for file in packaging::archives::below(&to, "")? {
        let text = String::from_utf8_lossy(&file.content);
        ensure!(!text.contains(SECRET), "{} has somebody's secret", file.path);
    }
    Ok(())
}
