//! The log of one operator, in addition to the output of the test.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::dispatcher::DefaultGuard;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::NoSubscriber;
use tracing::{Dispatch, Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::{EnvFilter, fmt as lines, registry};

/// The messages that an operator logs as it is shipped: from `info` on.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// All of them, from the first on.
    #[must_use]
    pub fn messages(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What notes them, and lets them go on to the output of the test; where
    /// who starts the operator shows no log (the demo), neither does this.
    pub(crate) fn dispatch(&self) -> Dispatch {
        let is_shown = tracing::dispatcher::get_default(|current| !current.is::<NoSubscriber>());
        let shown =
            is_shown.then(|| lines::layer().with_test_writer().with_ansi(false).with_filter(shown_lines()));
        Dispatch::new(registry().with(shown).with(self.clone().with_filter(LevelFilter::INFO)))
    }
}

/// Which lines are shown, unless `RUST_LOG` says otherwise. When a control plane ends, the client warns once for each of its
/// connections: hundreds of lines, between which nobody finds why the scenario failed.
pub(crate) fn shown_lines() -> EnvFilter {
    EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube_client=error"))
}

thread_local! {
    static NOTED: RefCell<Option<DefaultGuard>> = const { RefCell::new(None) };
}

/// What this thread says goes there, until it ends.
pub(crate) fn note_on_this_thread(dispatch: &Dispatch) {
    NOTED.set(Some(tracing::dispatcher::set_default(dispatch)));
}

/// The thread ends.
pub(crate) fn no_longer_on_this_thread() {
    NOTED.take();
}

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut said = Line(format!("{} {}", event.metadata().level(), event.metadata().target()));
        event.record(&mut said);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(said.0);
    }
}

/// A message with its fields, in one line.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        use fmt::Write;
        let _ = write!(self.0, " {field}={value:?}");
    }
}
