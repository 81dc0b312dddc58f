//! Which names users read in their namespace: those that the operator was told to tell. Everyone who may read the
//! namespace of an event's object can read the event (docs/threat-model-tenants.md).

use observe::Objects;
use reconcile::CheckAnswer;
use reconcile::discreet::for_those_of;

/// Whose names are told in a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum TellNames {
    /// All pods
    All,
    /// Pods of the namespace of the event
    #[default]
    OwnNamespace,
}

/// A text as it is told in a namespace.
#[must_use]
pub fn in_namespace(names: TellNames, namespace: &str, text: &str, objects: &Objects) -> String {
    match names {
        TellNames::All => text.to_owned(),
        TellNames::OwnNamespace => for_those_of(namespace, text, |node| objects.nodes.contains_key(node)),
    }
}

/// An answer to Kueue as whoever may read the workload's namespace reads it: with the names that are told there.
#[must_use]
pub fn answer(names: TellNames, answer: &CheckAnswer, objects: &Objects) -> CheckAnswer {
    let told = |text: &str| in_namespace(names, &answer.workload.0, text, objects);
    CheckAnswer { message: told(&answer.message), gist: told(&answer.gist), ..answer.clone() }
}
