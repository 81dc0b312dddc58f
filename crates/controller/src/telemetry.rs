//! Logs: structured, to standard error. Without changes nothing is logged.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// How lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One JSON object per line, for log collectors.
    #[default]
    Json,
    /// For people.
    Text,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter makes no sense.
    #[error(
        "log filter `{filter}` makes no sense; write a level (info, debug) or a list such as info,kube=debug"
    )]
    Filter {
        /// What was given.
        filter: String,
        /// What is wrong with it.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// Somebody set it up already.
    #[error("logging is set up already")]
    Twice(#[source] tracing_subscriber::util::TryInitError),
}

/// Sets logging up, once for a process.
///
/// # Errors
/// When the filter makes no sense, or it was set up before.
pub fn init(format: Format, filter: &str) -> Result<(), TelemetryError> {
    let parsed = EnvFilter::try_new(filter)
        .map_err(|source| TelemetryError::Filter { filter: filter.to_owned(), source })?;
    let registry = tracing_subscriber::registry().with(parsed);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let done = match format {
        Format::Json => registry.with(lines.json().flatten_event(true)).try_init(),
        Format::Text => registry.with(lines.with_target(false)).try_init(),
    };
    done.map_err(TelemetryError::Twice)
}
