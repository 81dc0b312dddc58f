//! `slicewright support-bundle` on a live virtual fleet, and the script that `oc adm must-gather` runs.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use cli::exit::Status;
use e2e::objects::OPERATOR_NAMESPACE;
use e2e::{Scene, a100, mig, objects, policy, scenario, workbench};
use serde_json::{Value, json};
use tempfile::TempDir;

/// What is told of somebody else's secret: it must be in no file.
const SECRET: &str = "do-not-tell-anybody";

struct Place {
    folder: TempDir,
    kubeconfig: PathBuf,
}

impl Place {
    fn new(scene: &Scene) -> anyhow::Result<Self> {
        let folder = TempDir::new()?;
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, serde_saphyr::to_string(scene.administrator())?)?;
        Ok(Self { folder, kubeconfig })
    }

    /// The bundle, collected with these further words.
    async fn collected(&self, name: &str, more: &[&str]) -> anyhow::Result<(PathBuf, String)> {
        let to = self.folder.path().join(name);
        let mut line: Vec<OsString> = ["slicewright", "support-bundle", "--to"].map(Into::into).into();
        line.extend([to.clone().into(), "--kubeconfig".into(), self.kubeconfig.clone().into()]);
        line.extend(more.iter().map(OsString::from));
        let ran = tokio::task::spawn_blocking(move || {
            let (mut out, mut err) = (Vec::new(), Vec::new());
            (cli::run(line, &mut out, &mut err), [out, err].concat())
        });
        let (status, said) = ran.await?;
        let said = String::from_utf8(said)?;
        ensure!(status == Status::Success, "{status:?}: {said}");
        Ok((to, said))
    }
}

/// Every file below a folder, with its text.
fn files(folder: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let all = packaging::archives::below(folder, "")?;
    Ok(all
        .into_iter()
        .map(|file| {
            (
                file.path.trim_start_matches('/').to_owned(),
                String::from_utf8_lossy(&file.content).into_owned(),
            )
        })
        .collect())
}

fn text<'a>(files: &'a [(String, String)], name: &str) -> anyhow::Result<&'a str> {
    let found = files.iter().find(|(file, _)| file == name);
    found.map(|(_, text)| text.as_str()).with_context(|| {
        format!("there is no {name} among {:?}", files.iter().map(|(file, _)| file).collect::<Vec<_>>())
    })
}

#[test]
fn what_a_maintainer_asks_for_first_is_collected_and_no_secret_and_without_names_where_that_is_asked_for() {
    scenario(async |scene| {
        scene.nodes_are([a100("n1", "all-1g.10gb"), a100("n2", "all-1g.10gb")]).await?;
        scene.operator().await?;
        scene.apply(policy("research", "research").at_a_time(2)).await?;
        scene.apply(workbench("fraud-lab", &mig("3g.40gb"), 1)).await?;
        scene.workbench_runs("fraud-lab").await?;
        scene.converged("research").await?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "stringData": {"password": SECRET},
            "metadata": {"name": "theirs", "namespace": OPERATOR_NAMESPACE},
        });
        objects::apply(&scene.client(), &secret).await?;

        let place = Place::new(scene)?;
        let (folder, said) = place.collected("whole", &[]).await?;
        let whole = files(&folder)?;
        let policies: Value = serde_json::from_str(text(&whole, "policies.json")?)?;
        ensure!(policies["items"][0]["status"]["conditions"].is_array(), "{policies}");
        ensure!(policies["items"][0]["metadata"].get("managedFields").is_none(), "{policies}");
        let nodes: Value = serde_json::from_str(text(&whole, "gpunodes.json")?)?;
        ensure!(nodes["items"].as_array().is_some_and(|items| items.len() == 2), "{nodes}");
        let events: Value = serde_json::from_str(text(&whole, "events.json")?)?;
        let events = events["items"].as_array().cloned().unwrap_or_default();
        ensure!(events.iter().any(|event| event["regarding"]["name"] == "fraud-lab-0"), "{events:?}");
        ensure!(events.iter().all(|event| event["reportingController"] == "slicewright.io/operator"));
        for (file, says) in [
            ("fleet.txt", "n1"),
            ("plan.txt", "0 violations"),
            ("plan.json", "\"formatVersion\""),
            ("map.json", "slicewright-mig-config"),
            ("operator/leases.json", "holderIdentity"),
            ("version.json", "gitVersion"),
        ] {
            ensure!(
                text(&whole, file)?.contains(says),
                "{file} does not say {says}:\n{}",
                text(&whole, file)?
            );
        }
        // No kubelet runs here: what has no log is told, and the rest is there.
        ensure!(said.contains("read them before you hand them on"), "{said}");
        ensure!(whole.iter().all(|(_, text)| !text.contains(SECRET)), "a secret was collected");

        let (folder, _) = place.collected("redacted", &["--redact"]).await?;
        let redacted = files(&folder)?;
        let names: Vec<&str> = redacted.iter().map(|(file, _)| file.as_str()).collect();
        assert_eq!(names, ["fleet.txt", "fleet.yaml", "plan.json", "plan.txt", "policies.yaml"]);
        for (file, text) in &redacted {
            ensure!(!text.contains("fraud-lab") && !text.contains("team-a"), "{file} names people:\n{text}");
        }
        must_gather(&place).await
    });
}

/// The script of the image calls our command, and leaves everything where `oc adm must-gather` takes it from.
async fn must_gather(place: &Place) -> anyhow::Result<()> {
    let folder = place.folder.path();
    // The image has our command in its path; here a script stands for it, and writes down how it was called.
    let (bin, gathered, called) = (folder.join("bin"), folder.join("must-gather"), folder.join("called"));
    std::fs::create_dir(&bin)?;
    let program = bin.join("slicewright");
    std::fs::write(
        &program,
        format!("#!/bin/sh\necho \"$@\" >> {}\necho slicewright 1.2.3\n", called.display()),
    )?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    let script = packaging::root().join("packaging/containers/gather");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let mut gather = Command::new("bash");
    gather.arg(script).arg(&gathered).env("PATH", path).env("GPU_OPERATOR_NAMESPACE", "gpu-operator");
    let status = tokio::task::spawn_blocking(move || gather.status()).await??;
    ensure!(status.success(), "{status}");
    assert_eq!(std::fs::read_to_string(gathered.join("version"))?, "slicewright\nslicewright 1.2.3\n");
    let called = std::fs::read_to_string(called)?;
    let last = called.lines().last().context("it was called")?;
    let expected = format!(
        "support-bundle --to {}/slicewright --operator-namespace slicewright-system --gpu-operator-namespace gpu-operator",
        gathered.display()
    );
    assert_eq!(last, expected);
    Ok(())
}
