//! `conf-compute`, `c2c`, `power-profiles` and `drain`, as far as they ask for a state that nothing here changes. What
//! else they have is not simulated, and no list of it is known: so every other option counts as the real program's.

use super::{Command, Refused, Targets, Words};

/// A state that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Confidential(Confidential),
    /// The links between a GPU and the processor on its module.
    ChipLinks(Targets),
    PowerProfiles(Targets),
    /// Whether the GPU at this address is being taken out of use.
    Drain {
        address: String,
    },
}

/// What `conf-compute` is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confidential {
    Feature,
    DevTools,
    Environment,
    Ready,
    All,
}

pub(super) fn conf_compute(words: Words) -> Result<Command, Refused> {
    let (asked, _) = one_question("conf-compute", words, |word| {
        Some(match word {
            "-f" => Confidential::Feature,
            "-d" => Confidential::DevTools,
            "-e" => Confidential::Environment,
            "-grs" => Confidential::Ready,
            "-q" => Confidential::All,
            _ => return None,
        })
    })?;
    Ok(asked.map_or(Command::Help, |asked| Command::State(State::Confidential(asked))))
}

pub(super) fn c2c(words: Words) -> Result<Command, Refused> {
    let (asked, targets) =
        one_question("c2c", words, |word| ["-s", "--status"].contains(&word).then_some(()))?;
    Ok(asked.map_or(Command::Help, |()| Command::State(State::ChipLinks(targets))))
}

pub(super) fn power_profiles(words: Words) -> Result<Command, Refused> {
    let questions = ["-l", "-ld", "-gr", "-ge"];
    let (asked, targets) =
        one_question("power-profiles", words, |word| questions.contains(&word).then_some(()))?;
    Ok(asked.map_or(Command::Help, |()| Command::State(State::PowerProfiles(targets))))
}

pub(super) fn drain(mut words: Words) -> Result<Command, Refused> {
    let mut asks = false;
    let mut address = None;
    if words.peek().is_none() {
        return Ok(Command::Help);
    }
    while let Some(word) = words.next() {
        match word.as_str() {
            "-h" | "--help" => return Ok(Command::Help),
            "-q" => asks = true,
            "-p" => address = Some(words.value()?),
            other => return Err(Refused::not_simulated(&format!("drain {other}"))),
        }
    }
    match address {
        Some(address) if asks => Ok(Command::State(State::Drain { address })),
        _ => Err(Refused::not_simulated(if asks { "drain -q without -p" } else { "drain without -q" })),
    }
}

/// The one question behind a subcommand, if there is any, and the GPUs that it is about. Whoever asks for nothing is
/// told what could be asked for.
fn one_question<T>(
    subcommand: &str,
    mut words: Words,
    question: impl Fn(&str) -> Option<T>,
) -> Result<(Option<T>, Targets), Refused> {
    let mut asked = None;
    let mut targets = Targets::default();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-h" | "--help" => return Ok((None, targets)),
            "-i" | "--id" => targets = Targets(Some(words.list()?)),
            other => match question(other) {
                Some(first) if asked.is_none() => asked = Some(first),
                Some(_) => {
                    return Err(Refused::not_simulated(&format!("{subcommand} with several questions")));
                }
                None => return Err(Refused::not_simulated(&format!("{subcommand} {other}"))),
            },
        }
    }
    Ok((asked, targets))
}
