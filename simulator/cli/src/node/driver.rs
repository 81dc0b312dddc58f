//! `slicewright-sim node driver`: a driver container without a driver. It provides the files that NVIDIA's
//! components look for, and keeps running.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::Context;
use store::{Store, StoreError};

mod library;

use super::{restart, setup, show};
use crate::in_cluster::StopSignal;

/// Does on a node what the container of NVIDIA's driver does, until it is stopped.
///
/// Programs and libraries of its image go into the driver root, with the files that they read
/// beside the library. The node is set up if it was not; after that its GPUs are as they were,
/// and a new life of the machine (the folder given by --run is empty) reboots them.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Example:
  slicewright-sim node driver --gpus a100-80gb=2 --writers everybody")]
#[group(skip)]
pub(super) struct Args {
    #[command(flatten)]
    setup: setup::Args,
    /// The driver root. Programs that run from there keep the files that they have.
    #[arg(long, value_name = "DIR", default_value = "/run/nvidia/driver")]
    root: PathBuf,
    /// A folder that does not outlive a reboot of the machine. It says there that it is ready, in
    /// validations/driver-ready.
    #[arg(long, value_name = "DIR", default_value = "/run/nvidia")]
    run: PathBuf,
    /// Whose programs and libraries go into the driver root: usr, lib and lib64 of this folder.
    #[arg(long, value_name = "DIR", default_value = "/")]
    image: PathBuf,
}

pub(super) async fn run(dir: &Path, args: Args, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    let told = StopSignal::listen()?;
    let root = args.root.clone();
    lay_out(dir, args, out)?;
    writeln!(out, "the driver root {} is laid out", root.display())?;
    out.flush()?;
    told.comes().await
}

fn lay_out(dir: &Path, args: Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let Args { setup, root, run, image } = args;
    let (validations, booted) = (run.join("validations"), run.join("booted"));
    let ready = validations.join("driver-ready");
    for folder in [&validations, &root.join("dev"), &root.join("tmp")] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    // Who starts meanwhile waits.
    match fs::remove_file(&ready) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", ready.display()));
        }
        _ => {}
    }
    for part in ["usr", "lib", "lib64"] {
        let from = image.join(part);
        if from.is_dir() {
            copy(&from, &root.join(part))
                .with_context(|| format!("cannot copy {} into {}", from.display(), root.display()))?;
        }
    }
    let store = match Store::open(dir) {
        Err(StoreError::NotSetUp { .. }) => {
            setup::run(dir, setup, out)?;
            Store::open(dir)?
        }
        other => {
            let store = other?;
            if !booted.exists() {
                // Instances are gone, and the mode stays where the board keeps it.
                restart::reboot(&store, &restart::RebootArgs {}, out)?;
            }
            store
        }
    };
    let version = store.read(|state| state.driver_version.clone())?;
    library::name(&root, &version)
        .with_context(|| format!("cannot name the library in {}", root.display()))?;
    touch(&booted)?;
    store.keep_files(&root)?;
    touch(&ready)?;
    show::run(&store, &show::Args::default(), out)
}

fn touch(file: &Path) -> anyhow::Result<()> {
    fs::write(file, "").with_context(|| format!("cannot write {}", file.display()))
}

/// Copies a folder into another one. What is there under the same name is
/// replaced at once: a program that starts meanwhile finds the old or the new
/// one, and one that runs keeps its own.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (entry, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let at = to.join(&name);
        let kind = fs::symlink_metadata(&entry)?.file_type();
        if kind.is_dir() {
            copy(&entry, &at)?;
            continue;
        }
        let mut new = std::ffi::OsString::from(".new-");
        new.push(&name);
        let new = to.join(new);
        if new.symlink_metadata().is_ok() {
            fs::remove_file(&new)?;
        }
        if kind.is_symlink() {
            symlink(fs::read_link(&entry)?, &new)?;
        } else {
            fs::copy(&entry, &new)?;
        }
        fs::rename(&new, &at)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use clap::Parser;
    use gpu::Caller;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    /// A machine with its folders.
    struct Node(tempfile::TempDir);

    impl Node {
        fn new() -> Self {
            let node = Self(tempfile::tempdir().unwrap());
            let bin = node.at("image/usr/bin");
            fs::create_dir_all(&bin).unwrap();
            fs::write(bin.join("nvidia-smi"), "one").unwrap();
            fs::set_permissions(bin.join("nvidia-smi"), fs::Permissions::from_mode(0o755)).unwrap();
            symlink("usr/bin", node.at("image/bin")).unwrap();
            symlink("nvidia-smi", bin.join("smi")).unwrap();
            node
        }

        fn at(&self, part: &str) -> PathBuf {
            self.0.path().join(part)
        }

        /// A container starts; what it said.
        fn starts(&self) -> String {
            let folder = |part: &str| self.at(part).display().to_string();
            let (root, run, image) = (folder("root"), folder("run"), folder("image"));
            let words =
                ["t", "--gpus", "a100-80gb=1", "--mig", "--root", &root, "--run", &run, "--image", &image];
            let mut out = Vec::new();
            lay_out(&self.at("state"), Cli::parse_from(words).args, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        }

        fn slices(&self) -> usize {
            let store = Store::open(&self.at("state")).unwrap();
            store.read(|state| state.machine.gpus()[0].instances.len()).unwrap()
        }

        fn cut(&self) {
            let store = Store::open(&self.at("state")).unwrap();
            let made = store.update(|state| {
                let mut nvml = state.machine.nvml(Caller::Root);
                let device = nvml.device_handle_by_index(0)?;
                nvml.create_gpu_instance(device, 19)
            });
            made.unwrap().unwrap();
        }
    }

    #[test]
    fn a_container_that_starts_again_finds_its_gpus_and_a_machine_that_does_has_lost_its_slices() {
        let node = Node::new();
        let said = node.starts();
        assert!(said.contains("node has 1 A100-80GB"), "{said}");
        assert!(node.at("run/validations/driver-ready").exists());
        assert!(node.at("root/proc/modules").exists(), "what is read beside the library");
        node.cut();
        node.starts();
        assert_eq!(node.slices(), 1, "only the container was new");
        fs::remove_dir_all(node.at("run")).unwrap();
        let said = node.starts();
        assert!(said.contains("gone: 1 GPU instances"), "{said}");
        assert_eq!(node.slices(), 0);
    }

    #[test]
    fn the_library_bears_the_version_of_the_driver_and_what_programs_load_is_a_link() {
        let node = Node::new();
        fs::create_dir_all(node.at("image/usr/lib64")).unwrap();
        let shipped = node.at("image/usr/lib64/libnvidia-ml.so.1");
        fs::write(&shipped, "first").unwrap();
        symlink("libnvidia-ml.so.1", node.at("image/usr/lib64/libnvidia-ml.so")).unwrap();
        node.starts();
        let root = node.at("root/usr/lib64");
        assert_eq!(
            fs::read_link(root.join("libnvidia-ml.so.1")).unwrap(),
            Path::new("libnvidia-ml.so.580.65.06")
        );
        assert!(fs::symlink_metadata(root.join("libnvidia-ml.so.580.65.06")).unwrap().is_file());
        // A new image, and a file that an earlier driver left.
        fs::write(root.join("libnvidia-ml.so.535.104.05"), "old").unwrap();
        fs::write(&shipped, "second").unwrap();
        node.starts();
        assert_eq!(fs::read_to_string(root.join("libnvidia-ml.so")).unwrap(), "second");
        let mut names: Vec<_> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["libnvidia-ml.so", "libnvidia-ml.so.1", "libnvidia-ml.so.580.65.06"]);
        // An image that has the file under the name of its own driver; twice, as a container that restarts.
        let image = node.at("image/usr/lib64");
        fs::rename(&shipped, image.join("libnvidia-ml.so.595.45.04")).unwrap();
        symlink("libnvidia-ml.so.595.45.04", &shipped).unwrap();
        fs::write(&shipped, "third").unwrap();
        for _ in 0..2 {
            node.starts();
            let root = node.at("root/usr/lib64");
            assert_eq!(fs::read_to_string(root.join("libnvidia-ml.so")).unwrap(), "third");
            let mut names: Vec<_> =
                fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, ["libnvidia-ml.so", "libnvidia-ml.so.1", "libnvidia-ml.so.580.65.06"]);
        }
    }

    #[test]
    fn the_driver_root_gets_the_programs_of_the_image_and_who_runs_one_keeps_his_own() {
        let node = Node::new();
        node.starts();
        let (program, link) = (node.at("root/usr/bin/nvidia-smi"), node.at("root/usr/bin/smi"));
        assert_eq!(fs::metadata(&program).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::read_link(link).unwrap(), Path::new("nvidia-smi"));
        let mut runs = fs::File::open(&program).unwrap();
        fs::write(node.at("image/usr/bin/nvidia-smi"), "two").unwrap();
        node.starts();
        assert_eq!(fs::read_to_string(&program).unwrap(), "two");
        assert_eq!(io::read_to_string(&mut runs).unwrap(), "one");
        let left = fs::read_dir(node.at("root/usr/bin")).unwrap().count();
        assert_eq!(left, 2, "nothing half-written");
    }
}
