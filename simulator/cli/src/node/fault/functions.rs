//! The functions of NVML by name, as the simulated library has them.

use std::io::Write;

use anyhow::bail;

/// One to a line, with its arguments: the library is made from the same list.
const LIST: &str = include_str!("../../../../libnvml/functions.txt");

/// The name under which the library lets a fault strike `nvidia-smi --gpu-reset`,
/// which has no function in the header.
const RESET: &str = "nvidia-smi --gpu-reset";

fn names() -> impl Iterator<Item = &'static str> {
    LIST.lines().filter_map(|line| line.split_once('(')).map(|(name, _)| name.trim())
}

/// The function that a text means.
pub(super) fn find(text: &str) -> anyhow::Result<String> {
    match text {
        "*" => return Ok(text.to_owned()),
        "reset" | RESET => return Ok(RESET.to_owned()),
        _ => {}
    }
    if let Some(name) = names().find(|name| *name == text) {
        return Ok(name.to_owned());
    }
    let nearest = mig::nearest::nearest(text, names());
    let hint = nearest.map(|name| format!(" (did you mean {name}?)")).unwrap_or_default();
    bail!(
        "the library has no function `{text}`{hint}; `slicewright-sim node fault functions TEXT` lists them"
    )
}

/// Those with a text in their name.
pub(super) fn list(text: &str, out: &mut dyn Write) -> anyhow::Result<()> {
    let lower = text.to_ascii_lowercase();
    let mut found: Vec<&str> = names().filter(|name| name.to_ascii_lowercase().contains(&lower)).collect();
    found.sort_unstable();
    if found.is_empty() {
        bail!("the library has no function with `{text}` in its name");
    }
    for name in found {
        writeln!(out, "{name}")?;
    }
    Ok(())
}
