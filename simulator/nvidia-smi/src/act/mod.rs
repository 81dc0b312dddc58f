//! Changes, with nvidia-smi's messages: each change is printed as soon as it is made, so that after an
//! interruption the user knows what was done.

pub(crate) mod create;
pub(crate) mod destroy;
pub(crate) mod mode;
pub(crate) mod persistence;
pub(crate) mod power;
pub(crate) mod reset;

use std::io::{self, Write};

use nvml::{Code, Error};

use crate::exit::Exit;

/// Where texts go.
pub(crate) type Out<'o> = &'o mut dyn Write;

/// The code of an error. What never reached the driver counts as unknown.
pub(crate) fn code_of(error: &Error) -> Code {
    error.code().unwrap_or(match error {
        Error::NoFunction { .. } => Code::FunctionNotFound,
        Error::NoLibrary { .. } => Code::LibraryNotFound,
        Error::Failed { .. } | Error::Nonsense { .. } => Code::Unknown,
    })
}

/// Says that a command about instances failed, and how it ends.
pub(crate) fn failed(out: Out<'_>, what: &str, code: Code) -> io::Result<Exit> {
    writeln!(out, "Failed to {what}: {}", code.words())?;
    Ok(Exit::from_code(code))
}
