//! The Containerfiles promise what our images promise.

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

const PRODUCTS: [Product; 2] = [Product::Operator, Product::Simulator];

#[test]
fn a_containerfile_has_the_labels_of_our_image() {
    for product in PRODUCTS {
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
    for product in PRODUCTS {
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
