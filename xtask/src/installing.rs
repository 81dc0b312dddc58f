//! How a program that a task needs gets onto a machine, and the one command
//! that installs everything that is missing.

use std::fmt;

/// How a tool is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Install {
    /// This command does it on every machine that has Rust.
    Command(&'static str),
    /// These packages have it on Debian and Ubuntu; other systems name theirs alike.
    Debian(&'static str),
    /// No command that suits every machine; the sentence says what to do.
    ByHand(&'static str),
}

impl fmt::Display for Install {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => f.write_str(command),
            Self::Debian(packages) => {
                write!(f, "apt-get install -y {packages} (on Debian and Ubuntu; other systems name it alike)")
            }
            Self::ByHand(sentence) => f.write_str(sentence),
        }
    }
}

/// The one command line that does all of these that a command can do; none
/// where all of them are done by hand.
pub(crate) fn one_command<'a>(installs: impl IntoIterator<Item = &'a Install>) -> Option<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut packages: Vec<&str> = Vec::new();
    for install in installs {
        match install {
            Install::Command(command) if !commands.iter().any(|known| known == command) => {
                commands.push((*command).to_owned());
            }
            Install::Debian(names) => {
                packages.extend(names.split(' '));
            }
            Install::Command(_) | Install::ByHand(_) => {}
        }
    }
    packages.sort_unstable();
    packages.dedup();
    if !packages.is_empty() {
        commands.insert(0, format!("apt-get install -y {}", packages.join(" ")));
    }
    (!commands.is_empty()).then(|| commands.join(" && "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_installed_by_one_command_and_each_other_tool_by_its_own() {
        let installs = [
            Install::Command("rustup component add clippy"),
            Install::Debian("python3 python3-venv"),
            Install::ByHand("install Go"),
            Install::Debian("gcc python3"),
            Install::Command("rustup component add clippy"),
        ];
        assert_eq!(
            one_command(&installs).as_deref(),
            Some("apt-get install -y gcc python3 python3-venv && rustup component add clippy")
        );
        assert_eq!(one_command(&[Install::ByHand("install Go")]), None);
    }
}
