//! The contents of an image, as CycloneDX: for scanners, and for people who want to know whether a
//! vulnerability of a library affects them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::packages::{Kind, Origin, Package};

/// A program of the image, and what it was made of.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its path in the image.
    pub path: String,
    /// The SHA-256 of the file, 64 digits.
    pub sha256: String,
    /// What cargo compiled for it.
    pub packages: Vec<Package>,
}

/// Something in the image that cargo knows nothing of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Other {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence as an SPDX expression, where that is known.
    pub licence: Option<String>,
    /// Its package URL, where it has one.
    pub purl: Option<String>,
}

/// The image that is described.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its repository.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
    /// As RFC 3339.
    pub created: &'a str,
}

/// An SPDX expression: some crates still write a slash for "or".
#[must_use]
pub fn expression(licence: &str) -> String {
    licence.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ")
}

fn reference(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

/// Turns a component's licence into what the format wants.
fn with_licence(mut component: Value, licence: Option<&str>) -> Value {
    if let Some(licence) = licence {
        component["licenses"] = json!([{"expression": expression(licence)}]);
    }
    component
}

fn of_package(package: &Package) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": reference(package),
        "name": package.name,
        "version": package.version,
        "scope": match package.kind { Kind::Linked => "required", Kind::Build => "excluded" },
    });
    match package.origin {
        Origin::Registry => component["purl"] = json!(reference(package)),
        Origin::Local | Origin::Git => {}
    }
    if let Some(sum) = &package.checksum {
        component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
    }
    if let Some(repository) = &package.repository {
        component["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    with_licence(component, package.licence.as_deref())
}

/// The document, with everything in a fixed order and a line for each thing.
#[must_use]
pub fn cyclonedx(subject: Subject<'_>, programs: &[Program], others: &[Other]) -> String {
    let image = format!("{}@{}", subject.name, subject.version);
    let mut components = BTreeMap::new();
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for Program { path, sha256, packages } in programs {
        let program = format!("file:{path}");
        let mut of_itself = BTreeSet::new();
        for package in packages {
            let name = reference(package);
            let below = package.dependencies.iter().map(|at| reference(&packages[*at]));
            edges.entry(name.clone()).or_default().extend(below);
            if package.root {
                of_itself.insert(name.clone());
            }
            // What one program links another may only build with: linked counts.
            if package.kind == Kind::Linked || !components.contains_key(&name) {
                components.insert(name, of_package(package));
            }
        }
        let component = json!({
            "type": "application",
            "bom-ref": program,
            "name": path,
            "version": subject.version,
            "hashes": [{"alg": "SHA-256", "content": sha256}],
        });
        components.insert(program.clone(), with_licence(component, Some("Apache-2.0")));
        edges.entry(image.clone()).or_default().insert(program.clone());
        edges.insert(program, of_itself);
    }
    for Other { name, version, licence, purl } in others {
        let reference = purl.clone().unwrap_or_else(|| format!("{name}@{version}"));
        let mut component = json!({"type": "library", "bom-ref": reference, "name": name, "version": version, "scope": "required"});
        if let Some(purl) = purl {
            component["purl"] = json!(purl);
        }
        components.insert(reference.clone(), with_licence(component, licence.as_deref()));
        edges.entry(image.clone()).or_default().insert(reference);
    }
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": subject.created,
            "component": {
                "type": "container",
                "bom-ref": image,
                "name": subject.name,
                "version": subject.version,
                "licenses": [{"expression": "Apache-2.0"}],
            },
        },
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": edges
            .into_iter()
            .map(|(from, to)| json!({"ref": from, "dependsOn": to}))
            .collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}
