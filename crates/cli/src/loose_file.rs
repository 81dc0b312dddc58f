//! A file that is named without its option: `slicewright plan policy.yaml`. What is missing is said, and not only that
//! the word was not expected.

use std::ffi::OsString;

use clap::Command;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The options that take files, by their name in the command, and what they take.
const TAKES: [(&str, &str); 2] = [("file", "a policy"), ("fleet", "a recorded fleet")];

/// Adds to an error about a word that was not expected which options take files, if the command has such options.
pub(crate) fn explain(command: &Command, args: &[OsString], mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return error };
    if error.kind() != ErrorKind::UnknownArgument || word.starts_with('-') {
        return error;
    }
    let called = args.get(1..).unwrap_or_default().iter().find_map(|arg| command.find_subcommand(arg));
    let options: Vec<String> = called.map_or(vec![], |called| {
        let takes = |(id, takes): &(&str, &str)| {
            let option = called.get_arguments().find(|option| option.get_id() == id)?;
            let short = option.get_short().map(|short| format!("-{short}"));
            let name = short.or_else(|| Some(format!("--{}", option.get_long()?)))?;
            Some(format!("{takes} follows '{name}'"))
        };
        TAKES.iter().filter_map(takes).collect()
    });
    if !options.is_empty() {
        let tip = StyledStr::from(options.join(", and "));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    fn says(line: &str) -> String {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        crate::run(line.split(' ').map(OsString::from), &mut out, &mut err);
        String::from_utf8(err).unwrap()
    }

    #[test]
    fn a_file_without_its_option_is_told_which_option_it_follows() {
        let plan = says("slicewright plan policy.yaml");
        assert!(plan.contains("unexpected argument 'policy.yaml' found"), "{plan}");
        assert!(
            plan.contains("tip: a policy follows '-f', and a recorded fleet follows '--fleet'"),
            "{plan}"
        );
        let fleet = says("slicewright fleet lab.yaml");
        assert!(fleet.contains("tip: a recorded fleet follows '--fleet'"), "{fleet}");
    }

    #[test]
    fn other_words_are_not_taken_for_files() {
        let misspelt = says("slicewright plan --fleeet lab.yaml");
        assert!(misspelt.contains("tip: a similar argument exists: '--fleet'"), "{misspelt}");
        let none = says("slicewright completions bash zsh");
        assert!(!none.contains("tip"), "{none}");
    }
}
