//! The name by which the command was called: `kubectl-slicewright` is a plugin of kubectl, and its help
//! shows what users type.

use std::ffi::OsStr;
use std::path::Path;

use clap::Command;

/// The plugin's file, as kubectl looks for it.
const PLUGIN: &str = "kubectl-slicewright";
/// What people type for it.
const TYPED: &str = "kubectl slicewright";

/// The command with the name that it was called by.
pub(crate) fn command(command: Command, program: Option<&OsStr>) -> Command {
    let stem = program.and_then(|program| Path::new(program).file_stem());
    if stem.is_none_or(|stem| stem != PLUGIN) {
        return command;
    }
    command.name(PLUGIN).bin_name(TYPED).display_name(TYPED).mut_subcommands(typed)
}

/// A subcommand and those below it, with what people type in their examples.
fn typed(sub: Command) -> Command {
    let examples = sub.get_after_help().map(ToString::to_string);
    let sub = sub.mut_subcommands(typed);
    match examples {
        Some(examples) => sub.after_help(examples.replace("slicewright ", "kubectl slicewright ")),
        None => sub,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    fn help(program: &str) -> String {
        help_of(program, &["plan"])
    }

    fn help_of(program: &str, command: &[&str]) -> String {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let line = [&[program], command, &["--help"]].concat();
        crate::run(line.into_iter().map(OsString::from), &mut out, &mut err);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_plugin_of_kubectl_says_what_people_type() {
        let plugin = help("/usr/local/bin/kubectl-slicewright");
        assert!(plugin.contains("Usage: kubectl slicewright plan "), "{plugin}");
        assert!(plugin.contains("  kubectl slicewright plan --fleet"), "{plugin}");
        assert!(!plugin.contains("  slicewright plan"), "{plugin}");
        let alone = help("slicewright");
        assert!(alone.contains("Usage: slicewright plan "), "{alone}");
        assert!(!alone.contains("kubectl slicewright"), "{alone}");
        let below = help_of("kubectl-slicewright", &["profiles", "export"]);
        assert!(below.contains("  kubectl slicewright profiles export"), "{below}");
    }
}
