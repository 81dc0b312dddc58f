//! The Containerfiles have the same properties as our images.

use std::collections::BTreeMap;
use std::path::Path;

use image::labels::{self, Product};

/// One instruction with its continued lines, comments left out.
fn instructions(product: Product) -> Vec<(String, String)> {
    let name = format!("../containers/{}.Containerfile", product.name());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let joined = lines.join("\n").replace("\\\n", " ");
    let instructions = joined.lines().filter(|line| !line.is_empty()).map(|line| {
        let (word, rest) = line.split_once(' ').unwrap();
        (word.to_owned(), rest.trim().to_owned())
    });
    instructions.collect()
}

/// The instructions of the last stage: those that the image has.
fn last_stage(product: Product) -> Vec<(String, String)> {
    let all = instructions(product);
    let from = all.iter().rposition(|(word, _)| word == "FROM").unwrap();
    all[from..].to_vec()
}

fn one(product: Product, word: &str) -> String {
    let found: Vec<_> = last_stage(product).into_iter().filter(|(found, _)| found == word).collect();
    let [(_, value)] = found.as_slice() else {
        panic!("{} has {word} {} times", product.name(), found.len())
    };
    value.clone()
}

/// `a="b" c="d"`, with values that have spaces.
fn pairs(text: &str) -> BTreeMap<String, String> {
    let mut pairs = BTreeMap::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once("=\"") {
        let (value, after) = after.split_once('"').unwrap();
        pairs.insert(name.trim().to_owned(), value.to_owned());
        rest = after;
    }
    assert_eq!(rest.trim(), "", "a label without quotes");
    pairs
}

/// Those that are built from the sources; that for must-gather takes the
/// command from the operator's image.
const PRODUCTS: [Product; 3] = [Product::Operator, Product::Simulator, Product::Agent];

#[test]
fn a_containerfile_has_the_labels_of_our_image() {
    for product in Product::ALL {
        let build = labels::Build {
            version: "${VERSION}",
            source: env!("CARGO_PKG_REPOSITORY"),
            revision: Some("${REVISION}"),
            created: "${CREATED}",
        };
        assert_eq!(pairs(&one(product, "LABEL")), labels::labels(product, &build), "{}", product.name());
        let version = last_stage(product)
            .into_iter()
            .find(|(word, rest)| word == "ARG" && rest.starts_with("VERSION="));
        assert_eq!(version.unwrap().1, format!("VERSION={}", env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn a_containerfile_runs_as_nobody_and_starts_the_same_program() {
    for product in Product::ALL {
        assert_eq!(one(product, "USER"), format!("{0}:{0}", image::USER));
        assert_eq!(one(product, "ENTRYPOINT"), format!("[\"{}\"]", product.entrypoint()));
        let all = last_stage(product);
        assert!(all.iter().all(|(word, _)| !matches!(word.as_str(), "RUN" | "CMD" | "EXPOSE" | "VOLUME")));
    }
}

/// The files are those of our own program, not a list of its own.
#[test]
fn a_containerfile_gets_its_files_from_the_same_program() {
    for product in PRODUCTS {
        let made =
            format!("cargo run --locked --package slicewright-image -- {} --tree /image", product.name());
        assert!(instructions(product).contains(&("RUN".to_owned(), made)));
        assert!(last_stage(product).contains(&("COPY".to_owned(), "--from=build /image/ /".to_owned())));
    }
}

/// The value of an ARG, in whichever stage.
fn argument(product: Product, name: &str) -> String {
    let found = instructions(product).into_iter().find_map(|(word, rest)| {
        let (found, value) = rest.split_once('=')?;
        (word == "ARG" && found == name).then(|| value.to_owned())
    });
    found.unwrap_or_else(|| panic!("{} has no ARG {name}", product.name()))
}

/// Which stages there are, what each begins with, and that nothing else is
/// copied from than what an earlier one is called.
#[test]
fn a_containerfile_hangs_together() {
    for product in PRODUCTS {
        let mut stages = Vec::new();
        for (word, rest) in instructions(product) {
            let known = ["ARG", "FROM", "RUN", "ENV", "WORKDIR", "COPY", "LABEL", "USER", "ENTRYPOINT"];
            assert!(known.contains(&word.as_str()), "{}: {word}", product.name());
            if word == "FROM" {
                let image = rest.split(' ').next().unwrap();
                let name = image.strip_prefix("${").and_then(|name| name.strip_suffix('}')).unwrap();
                assert!(argument(product, name).split_once(':').is_some_and(|(_, tag)| tag != "latest"));
                stages.push(rest.split_once(" AS ").map(|(_, name)| name.to_owned()));
            }
            if let Some(from) = rest.split(' ').find_map(|word| word.strip_prefix("--from=")) {
                let earlier = &stages[..stages.len() - 1];
                assert!(earlier.contains(&Some(from.to_owned())), "there is no earlier stage {from}");
            }
        }
        assert_eq!(stages, [Some("build".to_owned()), None]);
        // The C library that programs are linked to is the one that they find.
        let release = |name| argument(product, name).rsplit_once(':').unwrap().1.to_owned();
        assert_eq!(release("BUILDER"), release("BASE"));
        let rust = |text: &str| text.split('.').map(|n| n.parse().unwrap()).collect::<Vec<u32>>();
        assert!(rust(&argument(product, "RUST")) >= rust(env!("CARGO_PKG_RUST_VERSION")));
        assert_eq!(argument(product, "SOURCE_DATE_EPOCH"), "0");
    }
}

/// Podman would send gigabytes to the build.
#[test]
fn what_was_built_here_is_not_copied_into_the_build() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    assert!(read(".containerignore").lines().any(|line| line == "target"));
    assert!(read(".gitignore").lines().any(|line| line == "/target"), "what is built is elsewhere now");
}

/// Without a registry no base image is to be had here, so that podman cannot
/// be run. What it would run in the first stage can: the command is taken from
/// the file, with another folder and without optimisation, and what the last
/// stage copies and starts must be there.
#[test]
fn the_build_of_a_containerfile_makes_what_its_image_copies_and_starts() {
    if tools::variable("SLICEWRIGHT_CONTAINERFILES").is_none() {
        return;
    }
    for product in PRODUCTS {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        let mut build =
            instructions(product).into_iter().filter(|(word, _)| word == "RUN").map(|(_, rest)| rest);
        let line = build.next_back().unwrap().replace("/image", image.to_str().unwrap());
        let mut words = line.split(' ');
        let mut command = std::process::Command::new(words.next().unwrap());
        command.args(words).arg("--quick").current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        assert!(command.status().unwrap().success(), "{line}");

        for (_, rest) in last_stage(product).into_iter().filter(|(word, _)| word == "COPY") {
            let paths: Vec<_> = rest.split(' ').filter(|word| !word.starts_with("--")).collect();
            let [from, _] = paths.as_slice() else { panic!("COPY {rest}") };
            let from = from.strip_prefix("/image").unwrap().trim_start_matches('/');
            assert!(image.join(from).is_dir(), "{} copies {from}", product.name());
        }
        // Root's files keep their modes; what is started runs with the C library of this machine.
        let program = image.join(product.entrypoint().trim_start_matches('/'));
        let output = std::process::Command::new(&program).arg("--version").output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let name = program.file_name().unwrap().to_str().unwrap();
        assert_eq!(said, format!("{name} {}\n", env!("CARGO_PKG_VERSION")));
        for path in ["licenses/LICENSE", "licenses/THIRD-PARTY.txt"] {
            assert!(image.join(path).metadata().unwrap().len() > 1000, "{path}");
        }
        assert!(image.join(format!("usr/share/sbom/{}.cdx.json", product.name())).is_file());
        let library = image.join("usr/lib64/libnvidia-ml.so.1");
        assert_eq!(library.is_file(), product == Product::Simulator);
        if product == Product::Simulator {
            let file = std::fs::read_link(&library).unwrap();
            assert_eq!(file, Path::new("libnvidia-ml.so.580.65.06"), "the file has the driver's version");
        }
        let others = ["libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"];
        assert!(
            others.iter().all(|name| !image.join("usr/lib64").join(name).exists()),
            "that is the base image's"
        );
    }
}
