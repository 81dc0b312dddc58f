//! The operator: watches a cluster, plans one round at a time with pure functions, and carries out the
//! resulting actions. This crate decides nothing: every decision is made in `reconcile`, over objects that
//! [`store`] holds; this crate reads, writes, and ensures that only one replica writes.
//!
//! - [`watch`] feeds [`store`]; [`operator`] batches changes and runs rounds;
//! - [`lease`] decides whether this replica may write;
//! - [`apply`] carries out actions, [`publish`] reports the state;
//! - [`calls`] is the only place that calls the API server apart from watches, [`class`] the only one that
//!   classifies its errors.
//!
//! Nothing here is global: several operators may run in one process.

#[cfg(not(any(feature = "tls-rustls", feature = "tls-openssl")))]
compile_error!("choose a TLS implementation: --features tls-rustls (the default) or --features tls-openssl");

pub mod agents_policy;
pub mod apply;
pub mod args;
pub mod calls;
pub mod class;
pub mod client;
pub mod clock;
pub mod gather;
pub mod gauges;
pub mod give_back;
pub mod guard;
pub mod health;
pub mod lease;
pub mod metrics;
pub mod operator;
mod own_rights;
#[cfg(unix)]
pub mod process;
pub mod publish;
pub mod rbac;
pub mod release;
pub mod retries;
pub mod settings;
pub mod stop;
pub mod store;
pub mod support;
pub mod telemetry;
#[cfg(feature = "tls-rustls")]
pub mod tls;
pub mod tls_profile;
pub mod unanswered;
pub mod watch;

pub use operator::{Error, run};
pub use settings::{LeaseSettings, MapRef, Settings};
