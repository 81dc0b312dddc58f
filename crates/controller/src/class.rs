//! The classification of errors; no other code classifies them. The class alone decides whether to retry,
//! the level of the log message, and the metric's label.

use kube::Error;
use kube::core::Status;

/// What an error means for whoever made the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Somebody gave us something that makes no sense; wait until they change it.
    UserInput,
    /// It goes by: what was decided on is outdated, or the API server is busy.
    Transient,
    /// A human has to allow something first: rights, an admission webhook.
    Blocked,
    /// We sent something that the API server does not understand.
    Bug,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::UserInput, Self::Transient, Self::Blocked, Self::Bug];

    /// Its name, as metrics and logs write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UserInput => "user_input",
            Self::Transient => "transient",
            Self::Blocked => "blocked",
            Self::Bug => "bug",
        }
    }
}

/// The class of what the API server answered.
#[must_use]
pub fn of_status(status: &Status) -> Class {
    match status.code {
        401 => Class::Blocked,
        403 => Class::Blocked,
        // A webhook, and a ValidatingAdmissionPolicy, deny with a code of their own choosing.
        400 | 413 | 422 if is_denial(&status.message) => Class::Blocked,
        400 | 405 | 406 | 413 | 415 | 422 => Class::Bug,
        // Gone, already there, changed meanwhile, too many, or the server's own trouble.
        _ => Class::Transient,
    }
}

/// Whether these are the words of an admission plugin, and not of the API
/// server's own validation.
fn is_denial(message: &str) -> bool {
    ["admission webhook", "AdmissionPolicy", "is forbidden: "].iter().any(|part| message.contains(part))
}

/// The class of an error of the client.
#[must_use]
pub fn classify(error: &Error) -> Class {
    match error {
        Error::Api(status) => of_status(status),
        Error::BuildRequest(_) | Error::HttpError(_) => Class::Bug,
        // What arrived is no answer of the kind that was asked for: cut off, or
        // a proxy's page; a version of the API server that we cannot read looks
        // the same, and is said in the log each time.
        Error::SerdeError(_) | Error::FromUtf8(_) => Class::Transient,
        Error::Auth(_) => Class::Blocked,
        _ => Class::Transient,
    }
}

/// An error and what caused it, in one line; a cause whose text the error
/// itself repeats is left out.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: u16, message: &str, expect: Class) {
        let status = Status::failure(message, "").with_code(code);
        assert_eq!(of_status(&status), expect, "{code} {message}");
    }

    #[test]
    fn what_goes_by_is_tried_again_and_what_a_human_must_allow_is_not_called_a_bug() {
        for code in [404, 409, 410, 429, 500, 502, 503, 504] {
            check(code, "", Class::Transient);
        }
        check(401, "Unauthorized", Class::Blocked);
        check(403, "nodes is forbidden", Class::Blocked);
        check(422, "admission webhook \"a.b\" denied the request: no", Class::Blocked);
        let denied =
            "ValidatingAdmissionPolicy 'frozen' with binding 'frozen' denied request: not on Fridays";
        for code in [403, 413, 422] {
            check(code, &format!("nodes \"a1\" is forbidden: {denied}"), Class::Blocked);
        }
        check(422, "Node is invalid: metadata.labels", Class::Bug);
        check(413, "request entity too large", Class::Bug);
    }
}
