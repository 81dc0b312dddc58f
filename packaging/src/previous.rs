//! The previous chart, as an archive: the starting point of upgrades, and the CRDs with which the present
//! ones are compared.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use tar::Archive;

/// The archive, from the root of the repository; `packaging/previous/README.md`
/// says what it is and when it is replaced.
const CHART: &str = "packaging/previous/slicewright-0.1.0-ae21d67.tgz";

/// The archive, which Helm takes as it is.
#[must_use]
pub fn chart() -> PathBuf {
    crate::root().join(CHART)
}

/// The files of it that are text, by their path in the chart.
///
/// # Errors
/// When the archive cannot be read.
pub fn files() -> std::io::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let mut archive = Archive::new(GzDecoder::new(std::fs::File::open(chart())?));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.to_string_lossy().into_owned();
        let mut text = String::new();
        if entry.header().entry_type().is_file() && entry.read_to_string(&mut text).is_ok() {
            files.insert(path.split_once('/').map_or(path.clone(), |(_, rest)| rest.to_owned()), text);
        }
    }
    Ok(files)
}
