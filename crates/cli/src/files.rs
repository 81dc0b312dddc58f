//! The files that commands read.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use crate::exit::{Failure, chain};

/// A file's name, as it was found, and its text.
pub type Text = (String, String);

/// A file of manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Its name, as it was found.
    pub file: String,
    /// Its text.
    pub text: String,
    /// What its kustomizations annotate each of its objects with.
    pub annotations: BTreeMap<String, String>,
}

impl<'a> From<&'a Manifest> for observe::manifest::Text<'a> {
    fn from(manifest: &'a Manifest) -> Self {
        let Manifest { file, text, annotations } = manifest;
        Self { file, text, annotations: Some(annotations) }
    }
}

/// Reads one file; `-` is standard input.
///
/// # Errors
/// Names the file and says what is wrong with it.
pub fn read(path: &Path) -> Result<Text, Failure> {
    if is_standard_input(path) {
        let text = std::io::read_to_string(std::io::stdin().lock())
            .map_err(|error| Failure::Data(format!("cannot read standard input: {}", why(&error))))?;
        return Ok(("standard input".to_owned(), text));
    }
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::Data(format!("cannot read {}: {}", path.display(), why(&error))))?;
    Ok((path.display().to_string(), text))
}

/// The same; where no such file is there, `hint` goes on with what it could be.
///
/// # Errors
/// Names the file and says what is wrong with it.
pub fn read_or_hint(path: &Path, hint: &str) -> Result<Text, Failure> {
    read(path).map_err(|failure| match failure {
        Failure::Data(message) if !is_standard_input(path) && !path.exists() => {
            Failure::Data(format!("{message}; {hint}"))
        }
        other => other,
    })
}

/// Why a text cannot be read, in words for whoever named it.
fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::IsADirectory => "it is a folder; name a file in it".to_owned(),
        io::ErrorKind::InvalidData => {
            "it is not a text in UTF-8 (Windows PowerShell's `>` writes UTF-16: have the command write the file \
             itself, or use `| Out-File -Encoding utf8`)"
                .to_owned()
        }
        _ => chain(error),
    }
}

/// Whether a path stands for standard input.
#[must_use]
pub fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// What a path is called in messages.
#[must_use]
pub fn name(path: &Path) -> String {
    if is_standard_input(path) { "standard input".to_owned() } else { path.display().to_string() }
}

/// Writes a file as a whole or not at all: whoever reads it meanwhile sees the
/// one before.
///
/// # Errors
/// Names the file and says what is wrong with it.
pub fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let wrong =
        |error: &std::io::Error| Failure::Data(format!("cannot write {}: {}", path.display(), chain(error)));
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return Err(Failure::Usage(format!("{} names no file to write", path.display())));
    };
    let local = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = fs::File::create_new(&local).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&local, path)
    });
    written.map_err(|error| {
        // What was begun is of no use to anybody.
        let _ = fs::remove_file(&local);
        wrong(&error)
    })
}
