//! The library under the names that it has in a driver root: the file name contains the driver's version,
//! and the name that programs load is a link to it. Programs that create a CDI specification (`nvidia-ctk
//! cdi generate`) read the version from that name.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// What programs load.
const LOADED: &str = "libnvidia-ml.so.1";

/// Where drivers put their libraries.
const FOLDERS: [&str; 5] =
    ["usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib", "lib64"];

/// Gives the library the version's name, wherever it is a file in a driver root.
/// A program that loads it meanwhile finds it.
pub(super) fn name(root: &Path, version: &str) -> io::Result<()> {
    for folder in FOLDERS.map(|folder| root.join(folder)) {
        let loaded = folder.join(LOADED);
        if !loaded.is_file() {
            continue;
        }
        // A folder that was laid out so before has the file under the name of its own driver.
        let content = fs::canonicalize(&loaded)?;
        let file = format!("libnvidia-ml.so.{version}");
        let (named, link) = (folder.join(&file), folder.join(".new-libnvidia-ml.so.1"));
        let beside = folder.join(".new-libnvidia-ml");
        gone(&beside)?;
        fs::hard_link(&content, &beside)?;
        fs::rename(&beside, &named)?;
        // It stays where it has this very name already.
        gone(&beside)?;
        gone(&link)?;
        symlink(&file, &link)?;
        fs::rename(&link, &loaded)?;
        for other in fs::read_dir(&folder)? {
            let other = other?;
            // The file of another version: a driver has one.
            let name = other.file_name();
            let name = name.to_string_lossy();
            if name.starts_with("libnvidia-ml.so.") && name != LOADED && name != file {
                fs::remove_file(other.path())?;
            }
        }
    }
    Ok(())
}

fn gone(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
