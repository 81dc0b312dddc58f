//! The catalogue of GPU models: data files, embedded in the binary, read and
//! checked once.

mod check;
mod error;
mod file;

use std::collections::BTreeMap;
use std::sync::OnceLock;

pub use error::{CatalogError, Problem};

use crate::layout::or;
use crate::model::{Model, product_label};
use crate::name::ProfileName;
use crate::nearest::nearest;

/// The data files, by name.
const FILES: &[(&str, &str)] = &[
    ("a100.yaml", include_str!("../data/a100.yaml")),
    ("a30.yaml", include_str!("../data/a30.yaml")),
    ("h100.yaml", include_str!("../data/h100.yaml")),
    ("gh200.yaml", include_str!("../data/gh200.yaml")),
    ("h200.yaml", include_str!("../data/h200.yaml")),
    ("blackwell.yaml", include_str!("../data/blackwell.yaml")),
    ("rtx-pro-6000.yaml", include_str!("../data/rtx-pro-6000.yaml")),
];

/// GPU models, and the many ways to find one.
#[derive(Debug)]
pub struct Catalog {
    models: Vec<Model>,
    by_key: BTreeMap<String, usize>,
    by_product: BTreeMap<String, usize>,
    by_pci: BTreeMap<u16, usize>,
}

/// What a `nvidia.com/gpu.product` label says.
#[derive(Clone, Copy, Debug)]
pub struct Product<'a> {
    /// The model.
    pub model: &'a Model,
    /// The profile, where strategy `single` made it part of the label
    /// (`…-MIG-1g.10gb`).
    pub profile: Option<ProfileName>,
    /// Whether strategy `single` found a node that it cannot serve
    /// (`…-MIG-INVALID`).
    pub invalid: bool,
    /// Whether the GPU or its slices are shared (`…-SHARED`).
    pub shared: bool,
}

/// A text that names no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no GPU model with MIG is called `{text}`{} Known are {}",
    did_you_mean(nearest),
    known.join(", ")
)]
pub struct UnknownModel {
    /// What was given.
    pub text: String,
    /// The models that were probably meant: those of which the text is the
    /// beginning, else the one that is nearest.
    pub nearest: Vec<String>,
    /// The ids of all models.
    pub known: Vec<String>,
}

fn did_you_mean(nearest: &[String]) -> String {
    if nearest.is_empty() { ".".to_owned() } else { format!("; did you mean {}?", or(nearest)) }
}

impl Catalog {
    /// The models that Slicewright knows.
    ///
    /// # Panics
    /// Never: a test reads the embedded files.
    #[must_use]
    pub fn builtin() -> &'static Self {
        static BUILTIN: OnceLock<Catalog> = OnceLock::new();
        BUILTIN.get_or_init(|| match Self::parse(FILES) {
            Ok(catalog) => catalog,
            Err(error) => panic!("the embedded tables are tested: {error}"),
        })
    }

    /// Reads data files, given as name and content, and checks them.
    ///
    /// # Errors
    /// Names the file, model, profile and field, and what is wrong.
    pub fn parse(files: &[(&str, &str)]) -> Result<Self, CatalogError> {
        let mut models = Vec::new();
        for (name, text) in files {
            for entry in file::read(name, text)? {
                models.push(check::model(name, entry)?);
            }
        }
        let by_key = check::unique_keys(&models)?;
        let by_product = check::unique_products(&models)?;
        let by_pci = check::unique_pci_ids(&models)?;
        Ok(Self { models, by_key, by_product, by_pci })
    }

    /// All models, in the order of the files.
    #[must_use]
    pub fn models(&self) -> &[Model] {
        &self.models
    }

    /// The model with this id or alias. Letter case, blanks, `-` and `_` do not
    /// count.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Model> {
        self.by_key.get(&key(id)).map(|index| &self.models[*index])
    }

    /// The model that a text means: an id, an alias, a product name or a
    /// product label.
    ///
    /// # Errors
    /// Says which models there are and which is nearest.
    pub fn find(&self, text: &str) -> Result<&Model, UnknownModel> {
        let by_label = || self.by_product_label(text).map(|product| product.model);
        self.get(text).or_else(by_label).ok_or_else(|| self.unknown(text))
    }

    fn unknown(&self, text: &str) -> UnknownModel {
        let known: Vec<String> = self.models.iter().map(|model| model.id.clone()).collect();
        let begun = key(text);
        let mut meant: Vec<String> = known.clone();
        meant.retain(|id| !begun.is_empty() && key(id).starts_with(&begun));
        if meant.is_empty() {
            let names = self
                .models
                .iter()
                .flat_map(|model| std::iter::once(&model.id).chain(&model.aliases).map(String::as_str));
            meant.extend(nearest(text, names).map(str::to_owned));
        }
        UnknownModel { text: text.to_owned(), nearest: meant, known }
    }

    /// The model that NVML reports under this name.
    #[must_use]
    pub fn by_product_name(&self, name: &str) -> Option<&Model> {
        self.by_product.get(&product_key(name)).map(|index| &self.models[*index])
    }

    /// What the value of a `nvidia.com/gpu.product` label says; `None` if it is
    /// of no known model.
    ///
    /// Older drivers leave out the leading `NVIDIA-`; strategy `single` and
    /// sharing add suffixes.
    #[must_use]
    pub fn by_product_label(&self, label: &str) -> Option<Product<'_>> {
        let (label, shared) = match label.strip_suffix("-SHARED") {
            Some(rest) => (rest, true),
            None => (label, false),
        };
        // The last one: no model name has `-MIG-` in it, but the rule is cheap.
        let (name, suffix) = match label.rsplit_once("-MIG-") {
            Some((name, suffix)) => (name, Some(suffix)),
            None => (label, None),
        };
        let profile = suffix.and_then(|suffix| suffix.parse().ok());
        let invalid = suffix == Some("INVALID");
        if suffix.is_some() && profile.is_none() && !invalid {
            return None;
        }
        Some(Product { model: self.by_product_name(name)?, profile, invalid, shared })
    }

    /// The model with this PCI device id, vendor left out (`0x20B2`).
    #[must_use]
    pub fn by_pci_device_id(&self, id: u16) -> Option<&Model> {
        self.by_pci.get(&id).map(|index| &self.models[*index])
    }
}

/// Ids compare by letters and digits alone.
fn key(id: &str) -> String {
    id.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Product names compare as their labels do, without the leading `NVIDIA`.
fn product_key(name: &str) -> String {
    let label = product_label(name.trim()).to_ascii_lowercase();
    label.strip_prefix("nvidia-").unwrap_or(&label).to_owned()
}

#[cfg(test)]
mod tests;
