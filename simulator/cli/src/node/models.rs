//! The GPUs of a node, in the syntax of the command line.

use std::str::FromStr;
use std::sync::Arc;

use gpu::Model;

/// A model and how many of it.
#[derive(Clone, Debug)]
pub(super) struct Gpus {
    pub(super) model: Arc<Model>,
    pub(super) count: u16,
}

impl FromStr for Gpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, count) = match text.split_once('=') {
            Some((name, count)) => (name.trim(), count.trim()),
            None => (text.trim(), "1"),
        };
        let Ok(count @ 1..=32) = count.parse() else {
            return Err(format!("`{count}` is no number of GPUs: 1 to 32 are possible"));
        };
        let model = Model::named(name).map_err(|error| error.to_string())?;
        Ok(Self { model, count })
    }
}
