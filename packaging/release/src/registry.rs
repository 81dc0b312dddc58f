//! A registry, through `crane`: what is pushed is the bytes of a layout, and the registry has to say the same digest.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use image::oci::Layout;

/// A registry and the organisation in it.
pub(crate) struct Registry {
    crane: PathBuf,
    prefix: String,
    insecure: bool,
}

impl Registry {
    pub(crate) fn new(prefix: &str, insecure: bool) -> anyhow::Result<Self> {
        let prefix = prefix.trim_end_matches('/').to_owned();
        ensure!(
            prefix.contains('/') && !prefix.contains("://"),
            "{prefix:?} is no registry with an organisation, such as registry.example.com/slicewright"
        );
        Ok(Self { crane: tools::find("crane")?, prefix, insecure })
    }

    /// A repository in it.
    pub(crate) fn repository(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }

    fn crane(&self, words: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(&self.crane);
        command.args(words).args(self.insecure.then_some("--insecure"));
        let output = command.output().context("cannot run crane")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "crane {}: {}", words.join(" "), said.trim());
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// Pushes the layout in a folder, and returns the name by digest.
    pub(crate) fn push(&self, folder: &Path, name: &str, tag: &str, digest: &str) -> anyhow::Result<String> {
        let repository = self.repository(name);
        let tagged = format!("{repository}:{tag}");
        let folder = folder.to_str().context("a folder's name is text")?;
        self.crane(&["push", folder, &tagged])?;
        let there = self.crane(&["digest", &tagged])?;
        ensure!(there == digest, "{tagged} has {there}, and {digest} was pushed");
        Ok(format!("{repository}@{digest}"))
    }

    /// The same of a layout that is no folder yet; it stays beside what is published.
    pub(crate) fn publish(
        &self,
        layout: &Layout,
        folder: &Path,
        name: &str,
        tag: &str,
    ) -> anyhow::Result<String> {
        if folder.exists() {
            std::fs::remove_dir_all(folder)
                .with_context(|| format!("cannot replace {}", folder.display()))?;
        }
        for (path, content) in &layout.files {
            let path = folder.join(path);
            let parent = path.parent().unwrap_or(folder);
            std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
            std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        }
        self.push(folder, name, tag, &layout.digest)
    }
}
