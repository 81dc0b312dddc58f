//! `slicewright-sim node work`: a workload that opens the slices that its container was given.

use std::fmt;
use std::io::Write;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};
use gpu::{Activity, Client, Target};
use store::{Live, Store};
use tokio::signal::unix::{SignalKind, signal};

use super::place::{self, Place};

/// A workload in a container: opens the slices that the device plugin gave it, and works there.
///
/// It ends when it is told to (SIGTERM). A slice that is taken from it is what it says last, and it
/// fails, as a program does that computes there.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  slicewright-sim node work                # opens $NVIDIA_VISIBLE_DEVICES at once
  slicewright-sim node work --opens 5m     # as somebody who reads mail first
  slicewright-sim node work --opens never  # an idle notebook

The container needs the node's state directory; the device plugin says by the
variable which slices are its own.")]
pub(super) struct Args {
    /// What it was given: UUIDs of slices or GPUs, separated by commas.
    #[arg(
        long,
        value_name = "UUIDS",
        env = "NVIDIA_VISIBLE_DEVICES",
        value_delimiter = ',',
        required = true
    )]
    devices: Vec<String>,
    /// When it opens them: at-once, never, or after a time such as 30s.
    #[arg(long, value_name = "WHEN", default_value_t = Opens::After(Duration::ZERO))]
    opens: Opens,
    /// How much memory it has there, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 1000)]
    memory: u32,
}

/// When a workload opens what it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opens {
    After(Duration),
    Never,
}

impl FromStr for Opens {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "at-once" => return Ok(Self::After(Duration::ZERO)),
            "never" => return Ok(Self::Never),
            _ => {}
        }
        let span: Result<jiff::SignedDuration, _> = text.parse();
        let after = span.ok().and_then(|span| Duration::try_from(span).ok());
        after
            .map(Self::After)
            .ok_or_else(|| format!("{text:?} is neither at-once nor never nor a time such as 30s or 5m"))
    }
}

impl fmt::Display for Opens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("never"),
            Self::After(Duration::ZERO) => f.write_str("at-once"),
            Self::After(after) => write!(f, "{}s", after.as_secs()),
        }
    }
}

/// How often it looks whether its slices are still there.
const LOOKS: Duration = Duration::from_millis(500);

pub(super) async fn run(store: &Store, args: Args, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    let Args { devices, opens, memory } = args;
    let mut told = signal(SignalKind::terminate()).context("cannot be told to stop")?;
    for device in &devices {
        find(store, device)?;
    }
    writeln!(out, "given: {}", devices.join(", "))?;
    out.flush()?;
    let mut held = Vec::new();
    let wait = match opens {
        Opens::Never => None,
        Opens::After(after) => Some(tokio::time::sleep(after)),
    };
    match wait {
        None => {
            writeln!(out, "idle: opens nothing")?;
            out.flush()?;
            told.recv().await;
            return Ok(());
        }
        Some(wait) => tokio::select! {
            _ = told.recv() => return Ok(()),
            () = wait => {}
        },
    }
    for device in &devices {
        held.push(open(store, device, memory)?);
        writeln!(out, "open: {device}")?;
        out.flush()?;
    }
    loop {
        tokio::select! {
            _ = told.recv() => return Ok(()),
            () = tokio::time::sleep(LOOKS) => {}
        }
        for device in &devices {
            find(store, device)
                .with_context(|| format!("lost: {device} was taken away while it was open"))?;
        }
    }
}

fn find(store: &Store, device: &str) -> anyhow::Result<Target> {
    let place: Place = device.parse().map_err(anyhow::Error::msg)?;
    if !matches!(place, Place::Uuid(_)) {
        bail!("{device:?} is no UUID of a GPU or slice: the device plugin hands those out");
    }
    store.read(|state| place.find(&state.machine))?
}

fn open(store: &Store, device: &str, memory_mib: u32) -> anyhow::Result<Live> {
    let target = find(store, device)?;
    let client = Client {
        pid: std::process::id(),
        name: "slicewright-sim".to_owned(),
        target,
        activity: Activity::Computes,
        memory_mib,
    };
    let opened = store.enter(client)?;
    opened.with_context(|| format!("{device} ({}) cannot be opened", place::name(target)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_it_opens_is_read_as_it_is_written() {
        for text in ["at-once", "never", "30s"] {
            assert_eq!(text.parse::<Opens>().map(|opens| opens.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("5m".parse(), Ok(Opens::After(Duration::from_secs(300))));
        let error = "soon".parse::<Opens>().unwrap_err();
        assert!(error.contains("neither at-once nor never"), "{error}");
    }
}
