//! NVIDIA's driver, open only while the agent looks at it or asks it for a change: a handle that stays open would
//! keep the driver from being unloaded and a GPU from being reset.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nvml::port::{Answer, Found, Gpu, Gpus, Layout, PortError};
use nvml::{Pending, Unanswered, Worker};

/// Where the library is below the root of a file system: Red Hat's way, Debian's, and both without `/usr`.
const PLACES: [&str; 6] = [
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
];

/// Which library is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Library {
    /// `libnvidia-ml.so.1`, wherever the system has it.
    System,
    /// This file.
    File(PathBuf),
    /// That of a driver that is installed below this folder.
    Below(PathBuf),
}

impl Library {
    /// The file, as it is now: a driver may be installed, upgraded or removed
    /// at any time.
    fn file(&self) -> Result<Option<PathBuf>, DriverError> {
        match self {
            Self::System => Ok(None),
            Self::File(file) => Ok(Some(file.clone())),
            Self::Below(root) => {
                let files = PLACES.iter().map(|place| root.join(place).join("libnvidia-ml.so.1"));
                let found = files.into_iter().find(|file| file.exists());
                found.map(Some).ok_or_else(|| DriverError::NotInstalled { root: root.clone() })
            }
        }
    }
}

/// The driver of this machine.
#[derive(Clone, Debug)]
pub struct Driver {
    library: Library,
    patience: Duration,
    /// A thread that the driver keeps. While there is one, no other is started.
    stuck: Arc<Mutex<Option<Pending<nvml::Result<()>>>>>,
}

/// What the driver says of all GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The GPUs, answering or not.
    pub found: Found,
    /// What those that answer are cut into, in the same order.
    pub layouts: Vec<Answer<Layout>>,
}

/// Why nothing is known of any GPU.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The library is not there, or does not start.
    #[error(transparent)]
    Closed(#[from] nvml::Error),
    /// There is none below the folder.
    #[error(
        "no driver is installed below {}: libnvidia-ml.so.1 is in none of {} (--driver-root)",
        root.display(), PLACES.join(", ")
    )]
    NotInstalled {
        /// The folder.
        root: PathBuf,
    },
    /// It does not answer in time.
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
    /// An earlier call has not returned.
    #[error(
        "the driver has not answered an earlier call: it hangs; look for Xid errors in the kernel's log; the agent asks again when that call returns"
    )]
    Hangs,
    /// It answers with an error.
    #[error(transparent)]
    Refused(#[from] PortError),
}

impl Driver {
    /// The driver behind this library.
    #[must_use]
    pub fn new(library: Library, patience: Duration) -> Self {
        Self { library, patience, stuck: Arc::default() }
    }

    /// Reads all GPUs.
    ///
    /// # Errors
    /// The driver does not answer at all; a single GPU that does not is told in
    /// [`Machine`].
    pub async fn look(&self) -> Result<Machine, DriverError> {
        Ok(self.with(read).await??)
    }

    /// Opens the library, does this with the GPUs and closes it again.
    ///
    /// # Errors
    /// The library does not open, or does not answer in time.
    pub async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Gpus) -> T + Send + 'static,
    ) -> Result<T, DriverError> {
        let this = self.clone();
        let done = tokio::task::spawn_blocking(move || this.blocking(work)).await;
        done.unwrap_or(Err(DriverError::Unanswered(Unanswered::Gone)))
    }

    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn Gpus) -> T + Send + 'static,
    ) -> Result<T, DriverError> {
        let mut stuck = self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        if stuck.as_ref().is_some_and(|ended| ended.wait(Duration::ZERO).is_err_and(is_late)) {
            return Err(DriverError::Hangs);
        }
        *stuck = None;
        let library = self.library.file()?;
        let (worker, ended) = Worker::start(move |serve| nvml::open(library.as_deref(), |gpus| serve(gpus)));
        let answer = worker.ask(work).wait(self.patience);
        drop(worker);
        // Nobody goes on before the library is closed.
        match (answer, ended.wait(self.patience)) {
            (Ok(answer), Ok(_)) => Ok(answer),
            (_, Ok(Err(error))) => Err(error.into()),
            (Err(unanswered), Ok(Ok(()))) => Err(unanswered.into()),
            (answer, Err(late)) => {
                if is_late(late) {
                    *stuck = Some(ended);
                }
                Err(answer.err().unwrap_or(late).into())
            }
        }
    }
}

fn is_late(why: Unanswered) -> bool {
    matches!(why, Unanswered::NotYet(_))
}

fn read(gpus: &mut dyn Gpus) -> Answer<Machine> {
    let found = gpus.enumerate()?;
    let layouts = found.gpus.iter().map(|Gpu { uuid, .. }| gpus.layout(uuid)).collect();
    Ok(Machine { found, layouts })
}
