//! Images of one program each: the program with the libraries that it loads, taken from this machine.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::archive;
use crate::call::call;
use crate::place::remove;

/// What an image has.
#[derive(Clone, Debug)]
pub struct Contents {
    /// Its name; its tag is made from what is in all of them.
    pub name: &'static str,
    /// Programs and where they are in the image; what they load comes along.
    pub programs: Vec<(PathBuf, &'static str)>,
    /// Files and where they are in the image: text, and whether it is run.
    pub files: Vec<(&'static str, &'static str, bool)>,
    /// What runs when nobody says otherwise.
    pub entrypoint: Vec<&'static str>,
}

/// Writes one archive of these images; their tag, which is another one when
/// anything in them is.
///
/// # Errors
/// When a program is not there or cannot be copied.
pub fn write(images: &[Contents], scratch: &Path, into: &Path) -> anyhow::Result<String> {
    let mut layers = Vec::new();
    let mut sums = String::new();
    for (index, image) in images.iter().enumerate() {
        let folder = scratch.join(format!("program-{index}"));
        fill(image, &folder).with_context(|| format!("cannot make the image {}", image.name))?;
        let layer = scratch.join(format!("program-{index}.tar"));
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(&folder).args([
            "--sort=name",
            "--mtime=@0",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
        ]);
        call(tar.arg("-cf").arg(&layer).arg("."))?;
        remove(&folder)?;
        sums.push_str(&archive::sha256(&layer)?);
        layers.push(layer);
    }
    let tag: String = Sha256::digest(&sums).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let tagged: Vec<String> = images.iter().map(|image| format!("{}:{tag}", image.name)).collect();
    let names: Vec<[&str; 1]> = tagged.iter().map(|name| [name.as_str()]).collect();
    let images: Vec<_> = images
        .iter()
        .zip(&layers)
        .zip(&names)
        .map(|((image, layer), names)| archive::Image {
            names,
            layer,
            config: json!({
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
                "Entrypoint": image.entrypoint,
            }),
        })
        .collect();
    archive::write(into, scratch, &images)?;
    Ok(tag)
}

fn fill(image: &Contents, folder: &Path) -> anyhow::Result<()> {
    for part in ["tmp", "etc", "proc", "sys", "dev", "run"] {
        fs::create_dir_all(folder.join(part))?;
    }
    fs::set_permissions(folder.join("tmp"), fs::Permissions::from_mode(0o1777))?;
    fs::create_dir_all(folder.join("usr/bin"))?;
    symlink("usr/bin", folder.join("bin"))?;
    fs::write(folder.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")?;
    for (program, at) in &image.programs {
        put(program, &folder.join(at))?;
        for library in loaded_by(program)? {
            let at = folder.join(library.strip_prefix("/").unwrap_or(&library));
            if !at.exists() {
                put(&library, &at)?;
            }
        }
    }
    for (at, text, runs) in &image.files {
        let at = folder.join(at);
        fs::create_dir_all(at.parent().context("a file is in a folder")?)?;
        fs::write(&at, text)?;
        fs::set_permissions(&at, fs::Permissions::from_mode(if *runs { 0o755 } else { 0o644 }))?;
    }
    Ok(())
}

fn put(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to.parent().context("a program is in a folder")?)?;
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).with_context(|| format!("{}", to.display()))
}

/// The libraries and the loader of a program, by the paths at which it looks
/// for them; none for a static one.
fn loaded_by(program: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("cannot run ldd")?;
    // A static program has none, which ldd says by failing.
    if !output.status.success() {
        return Ok(Vec::new());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(!text.contains("not found"), "{} loads what this machine lacks: {text}", program.display());
    Ok(text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect())
}

/// Where a program of this machine is.
///
/// # Errors
/// When it is nowhere.
pub fn of_this_machine(name: &str) -> anyhow::Result<PathBuf> {
    let folders = ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"];
    let found = folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file());
    let found = found.with_context(|| format!("{name} is missing on this machine"))?;
    fs::canonicalize(&found).with_context(|| format!("cannot read {}", found.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_comes_with_what_it_loads_and_runs_from_its_image_alone() {
        let dir = tempfile::tempdir().unwrap();
        let image = Contents {
            name: "t",
            programs: vec![(of_this_machine("cat").unwrap(), "usr/bin/cat")],
            files: vec![("etc/motto", "one idea a file\n", false)],
            entrypoint: vec!["/usr/bin/cat"],
        };
        let folder = dir.path().join("root");
        fill(&image, &folder).unwrap();
        let loader = loaded_by(&folder.join("usr/bin/cat")).unwrap();
        assert!(loader.iter().all(|library| folder.join(library.strip_prefix("/").unwrap()).is_file()));
        assert!(!loader.is_empty());

        let archive = dir.path().join("t.tar");
        let tag = write(std::slice::from_ref(&image), dir.path(), &archive).unwrap();
        assert_eq!(write(&[image], dir.path(), &archive).unwrap(), tag, "the same again");
        let listed = call(Command::new("tar").arg("-tf").arg(&archive)).unwrap();
        assert!(listed.contains("./manifest.json"), "{listed}");
    }
}
