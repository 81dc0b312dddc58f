//! The archives in a real containerd, the one that nodes of a cluster run: the images that it finds in
//! them, and their names. `cargo xtask image --load` sets its location; it must run as root.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use image::labels::Product;

use crate::promises::{folder, images, products};

/// A containerd with nothing in it, in a folder of its own.
struct Containerd {
    process: Child,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Containerd {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let settings = format!(
            "version = 3\nroot = {:?}\nstate = {:?}\n\
             disabled_plugins = [\"io.containerd.grpc.v1.cri\", \"io.containerd.cri.v1.images\", \
             \"io.containerd.cri.v1.runtime\"]\n[grpc]\naddress = {:?}\n[debug]\naddress = {:?}\n[ttrpc]\naddress = {:?}\n",
            at("root"),
            at("state"),
            at("s"),
            at("debug"),
            at("ttrpc")
        );
        std::fs::write(at("settings.toml"), settings).unwrap();
        let log = std::fs::File::create(at("log")).unwrap();
        let mut command = Command::new(tools::find("containerd").unwrap());
        command.arg("--config").arg(at("settings.toml")).stdout(Stdio::null()).stderr(log);
        let mut started = Self { process: command.spawn().unwrap(), socket: at("s"), _folder: folder };
        while !started.ctr(&["version"]).status().unwrap().success() {
            let log = || std::fs::read_to_string(started._folder.path().join("log")).unwrap_or_default();
            assert!(started.process.try_wait().unwrap().is_none(), "containerd ended: {}", log());
            #[expect(clippy::disallowed_methods, reason = "a process tells nobody that it listens")]
            std::thread::sleep(Duration::from_millis(50));
        }
        started
    }

    fn ctr(&self, args: &[&str]) -> Command {
        let mut command = Command::new(tools::find("ctr").unwrap());
        command.arg("--address").arg(&self.socket).args(["--namespace", "k8s.io", "--connect-timeout", "1s"]);
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }

    /// As kind and `ctr` do it, without unpacking.
    fn import(&self, archive: &Path) {
        let archive = archive.to_str().unwrap();
        let mut import =
            self.ctr(&["images", "import", "--all-platforms", "--digests", "--no-unpack", archive]);
        let output = import.stderr(Stdio::piped()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Name and digest of everything that it has.
    fn list(&self) -> Vec<(String, String)> {
        let output = self.ctr(&["images", "list"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let row = |line: &str| {
            let mut words = line.split_whitespace();
            Some((words.next()?.to_owned(), words.nth(1)?.to_owned()))
        };
        text.lines().skip(1).filter_map(row).collect()
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn wanted() -> Option<PathBuf> {
    tools::variable("SLICEWRIGHT_IMAGES_LOAD").and_then(|_| folder())
}

/// What the kubelet asks for is the name written out, and what was published
/// is the digest: it must survive the archive.
#[test]
fn containerd_finds_each_image_under_its_name_with_its_digest() {
    let Some(folder) = wanted() else { return };
    let containerd = Containerd::start();
    for product in products() {
        containerd.import(&folder.join(format!("{}.tar", product.name())));
        let digest = std::fs::read_to_string(folder.join(format!("{}.digest", product.name()))).unwrap();
        let index = std::fs::read(folder.join(product.name()).join("index.json")).unwrap();
        let index: serde_json::Value = serde_json::from_slice(&index).unwrap();
        let name = index["manifests"][0]["annotations"]["io.containerd.image.name"].as_str().unwrap();
        let list = containerd.list();
        let expected = (name.to_owned(), digest.trim().to_owned());
        assert!(list.contains(&expected), "{expected:?} is not in {list:?}");
    }
    // And all that the manifest names is there: containerd looks for each of them.
    for (product, image) in images() {
        let check = containerd.ctr(&["images", "check"]).output().unwrap();
        let said = String::from_utf8(check.stdout).unwrap();
        let name = product.repository().rsplit('/').next().unwrap();
        let line = said.lines().find(|line| line.contains(&format!("/{name}:"))).unwrap_or_default();
        // Its configuration and its layers, of every processor.
        assert!(line.contains("complete ("), "{name}: {said}");
        let parts = image.manifest.layers().len() + 1;
        let several = images().iter().filter(|(other, _)| *other == product).count() > 1;
        assert!(several || line.contains(&format!("complete ({parts}/{parts})")), "{name}: {said}");
    }
}

/// What is asked for in the values of the chart is what is in the archive.
#[test]
fn the_chart_asks_for_the_image_as_it_is_loaded() {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/slicewright");
    let values = std::fs::read_to_string(chart.join("values.yaml")).unwrap();
    let repository = values.lines().find_map(|line| line.strip_prefix("  repository: ")).unwrap();
    // A release writes where it is published, and its pages name this repository beside the registry.
    if values.contains("\n  registry: \"\"\n") {
        assert_eq!(repository, Product::Operator.repository());
    }
    // With the registry that its refusal tells people to name.
    let refusal = std::fs::read_to_string(chart.join("templates/_helpers.tpl")).unwrap();
    assert!(refusal.contains("--set image.registry=localhost"));
    assert_eq!(Product::Operator.loaded(), format!("localhost/{}", Product::Operator.repository()));
    let about = std::fs::read_to_string(chart.join("Chart.yaml")).unwrap();
    let version = about.lines().find_map(|line| line.strip_prefix("appVersion: ")).unwrap();
    assert_eq!(version.trim_matches('"'), env!("CARGO_PKG_VERSION"));
}
