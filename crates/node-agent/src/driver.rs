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
        let answer = ask(&worker, work, self.patience);
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

/// Asks for something that is to be begun in time or never. A library that takes minutes to open would otherwise
/// destroy a slice when the change was given up long before, and a pod has it.
fn ask<T: Send + 'static>(
    worker: &Worker,
    work: impl FnOnce(&mut dyn Gpus) -> T + Send + 'static,
    patience: Duration,
) -> Result<T, Unanswered> {
    let wanted = Arc::new(Mutex::new(Some(work)));
    let take = |wanted: &Mutex<Option<_>>| wanted.lock().unwrap_or_else(PoisonError::into_inner).take();
    let theirs = Arc::clone(&wanted);
    let pending = worker.ask(move |gpus| take(&theirs).map(|work| work(gpus)));
    let answer = pending.wait(patience);
    // Whoever takes it has it: what is begun goes on.
    drop(take(&wanted));
    answer?.ok_or(Unanswered::Gone)
}

fn is_late(why: Unanswered) -> bool {
    matches!(why, Unanswered::NotYet(_))
}

fn read(gpus: &mut dyn Gpus) -> Answer<Machine> {
    let found = gpus.enumerate()?;
    let layouts = found.gpus.iter().map(|Gpu { uuid, .. }| gpus.layout(uuid)).collect();
    Ok(Machine { found, layouts })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use nvml::port::{Created, Destroyed, Event, GpuUuid, Mode, ModeSet, Place, Profile};

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    /// GPUs of which nobody asks anything.
    struct Unasked;

    impl Gpus for Unasked {
        fn enumerate(&mut self) -> Answer<Found> {
            unreachable!("nobody asks")
        }

        fn profiles(&mut self, _: &GpuUuid) -> Answer<Vec<Profile>> {
            unreachable!("nobody asks")
        }

        fn layout(&mut self, _: &GpuUuid) -> Answer<Layout> {
            unreachable!("nobody asks")
        }

        fn set_mode(&mut self, _: &GpuUuid, _: Mode) -> Answer<ModeSet> {
            unreachable!("nobody asks")
        }

        fn create(&mut self, _: &GpuUuid, _: &Place) -> Answer<Created> {
            unreachable!("nobody asks")
        }

        fn destroy(&mut self, _: &GpuUuid, _: &Place) -> Answer<Destroyed> {
            unreachable!("nobody asks")
        }

        fn events(&mut self, _: Duration) -> Answer<Vec<Event>> {
            unreachable!("nobody asks")
        }
    }

    #[test]
    fn what_a_library_that_opens_late_was_asked_for_is_never_begun() {
        let (opens, late) = mpsc::channel::<()>();
        let (worker, ended) = Worker::start(move |serve| {
            assert!(late.recv().is_err(), "it opens when the test lets go");
            serve(&mut Unasked);
        });
        let (begins, begun) = mpsc::channel();
        let answer = ask(&worker, move |_| begins.send(()), Duration::ZERO);
        assert!(answer.is_err_and(is_late));
        drop(worker);
        drop(opens);
        assert_eq!(ended.wait(SOON), Ok(()));
        assert!(begun.recv().is_err(), "it was begun although nobody waited for it any more");
    }

    #[test]
    fn what_is_begun_in_time_goes_on_though_nobody_waits_for_it() {
        let (worker, ended) = Worker::start(|serve| serve(&mut Unasked));
        let (begins, begun) = mpsc::channel();
        let (lets_go, held) = mpsc::channel::<()>();
        let (ends, end) = mpsc::channel();
        let asking = std::thread::spawn(move || {
            let work = move |_: &mut dyn Gpus| {
                begins.send(()).expect("the test waits for it");
                assert!(held.recv().is_err(), "it goes on when the test lets go");
                ends.send(()).expect("the test waits for it");
            };
            ask(&worker, work, Duration::from_millis(50))
        });
        begun.recv_timeout(SOON).expect("it begins");
        assert!(asking.join().expect("it does not panic").is_err_and(is_late));
        drop(lets_go);
        end.recv_timeout(SOON).expect("it ends");
        assert_eq!(ended.wait(SOON), Ok(()));
    }
}
