//! Which of the two programs was called: by the name of the file, as the
//! image's links have it. They share nearly all of their code, so one program
//! that is both is half as large as two.

use std::ffi::OsStr;
use std::path::Path;

/// The name under which the program is the operator; under every other one it
/// is the `slicewright` command.
pub const OPERATOR: &str = "slicewright-operator";

/// What a process of this program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `slicewright-operator`.
    Operator,
    /// `slicewright`.
    Command,
}

/// By the first word of the command line, which may be a path, and may be
/// missing.
#[must_use]
pub fn program(called: Option<&OsStr>) -> Program {
    let name = called.and_then(|called| Path::new(called).file_name());
    if name == Some(OsStr::new(OPERATOR)) { Program::Operator } else { Program::Command }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_file_decides_and_not_its_folder() {
        for (called, expected) in [
            ("/usr/bin/slicewright-operator", Program::Operator),
            ("slicewright-operator", Program::Operator),
            ("/usr/bin/slicewright", Program::Command),
            ("kubectl-slicewright", Program::Command),
            ("/opt/slicewright-operator/slicewright", Program::Command),
            ("", Program::Command),
        ] {
            assert_eq!(program(Some(OsStr::new(called))), expected, "{called:?}");
        }
        assert_eq!(program(None), Program::Command);
    }
}
