//! The thread that owns the GPUs.
//!
//! NVML's calls block, some for seconds, and concurrent changes have no advantage, so one thread makes all
//! calls in the order of the requests. A request is a closure over the port, and its answer is the return
//! value of the closure. Nothing that borrows from the library can escape in this way.
//!
//! Asynchronous code calls [`Worker::ask`] and sends the answer from inside the closure to a channel of its
//! own runtime.

use std::fmt;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use crate::port::Gpus;

type Job = Box<dyn FnOnce(&mut dyn Gpus) + Send>;

/// The owner of the GPUs. Ends when it is dropped, after the job at hand.
#[derive(Debug)]
pub struct Worker {
    jobs: Sender<Job>,
}

/// An answer that has not come yet.
#[derive(Debug)]
pub struct Pending<T>(Receiver<T>);

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// It takes longer than the caller waits. What was asked for may still
    /// happen.
    #[error("the driver has not answered in {}: it may hang; look for Xid errors in the kernel's log", Seconds(*.0))]
    NotYet(Duration),
    /// The thread is gone: it never had a library, or a job of its panicked.
    #[error("nobody has the GPUs of this machine open")]
    Gone,
}

struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} seconds", self.0.as_secs_f64())
    }
}

impl Worker {
    /// Starts the thread. `open` runs on it, opens the GPUs and lends them to
    /// the function that it is given; when that returns, everybody is gone.
    /// What `open` returns is for whoever waits for its end.
    ///
    /// ```no_run
    /// let (worker, ended) = nvml::Worker::start(|serve| nvml::open(None, |gpus| serve(gpus)));
    /// let found = worker.ask(|gpus| gpus.enumerate()).wait(std::time::Duration::from_secs(10));
    /// ```
    pub fn start<E: Send + 'static>(
        open: impl FnOnce(&mut dyn FnMut(&mut dyn Gpus)) -> E + Send + 'static,
    ) -> (Self, Pending<E>) {
        let (jobs, todo) = mpsc::channel::<Job>();
        let (tell, ended) = mpsc::channel();
        thread::spawn(move || {
            let end = open(&mut |gpus| {
                while let Ok(job) = todo.recv() {
                    job(gpus);
                }
            });
            // Nobody may be interested in it.
            let _ = tell.send(end);
        });
        (Self { jobs }, Pending(ended))
    }

    /// Asks for something. It happens after everything that was asked for
    /// before, whether or not the answer is waited for.
    pub fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut dyn Gpus) -> T + Send + 'static,
    ) -> Pending<T> {
        let (tell, answer) = mpsc::channel();
        let job: Job = Box::new(move |gpus| {
            // Whoever asked may have stopped waiting.
            let _ = tell.send(question(gpus));
        });
        // Where nobody takes the job, it is dropped with its end of the channel, and the answer says so.
        let _ = self.jobs.send(job);
        Pending(answer)
    }
}

impl<T> Pending<T> {
    /// Waits for the answer, so long at most.
    ///
    /// # Errors
    /// It has not come; it never will.
    pub fn wait(&self, at_most: Duration) -> Result<T, Unanswered> {
        self.0.recv_timeout(at_most).map_err(|error| match error {
            RecvTimeoutError::Timeout => Unanswered::NotYet(at_most),
            RecvTimeoutError::Disconnected => Unanswered::Gone,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::port::{Destroyed, GpuUuid, MockGpus, Place, PortError};

    const SOON: Duration = Duration::from_secs(20);

    fn in_use_once() -> MockGpus {
        let mut gpus = MockGpus::new();
        let in_use = |gpu: &GpuUuid, place: &Place| {
            Err(PortError::InUse { gpu: gpu.clone(), place: place.clone(), processes: Vec::new() })
        };
        gpus.expect_destroy().times(1).returning(in_use);
        gpus.expect_destroy().times(1).returning(|_, _| Ok(Destroyed::Gone));
        gpus
    }

    #[test]
    fn what_is_asked_happens_in_order_and_a_single_failure_is_one_answer() {
        let (worker, ended) = Worker::start(|serve| serve(&mut in_use_once()));
        let destroy =
            |gpus: &mut dyn Gpus| gpus.destroy(&GpuUuid("GPU-1".to_owned()), &Place::new("1g.10gb", 3));
        let (first, second) = (worker.ask(destroy), worker.ask(destroy));
        // The second is waited for first: it comes after the first all the same.
        assert_eq!(second.wait(SOON), Ok(Ok(Destroyed::Gone)));
        let error = first.wait(SOON).unwrap().unwrap_err();
        assert_eq!(
            error.to_string(),
            "slice 1g.10gb@3 of GPU GPU-1 is in use by a process that computes nothing, such as a monitor: end it, then try again"
        );
        drop(worker);
        assert_eq!(ended.wait(SOON), Ok(()), "the thread ends with its owner");
    }

    #[test]
    fn a_call_that_hangs_keeps_nobody_waiting_for_ever() {
        let (hang, held) = mpsc::channel::<()>();
        let (worker, _) = Worker::start(|serve| serve(&mut MockGpus::new()));
        let stuck = worker.ask(move |_| held.recv().is_err());
        let next = worker.ask(|_| "after it");
        let error = next.wait(Duration::ZERO).unwrap_err();
        assert_eq!(error, Unanswered::NotYet(Duration::ZERO));
        assert!(error.to_string().starts_with("the driver has not answered in 0.0 seconds"), "{error}");
        drop(hang);
        assert_eq!(stuck.wait(SOON), Ok(true));
        assert_eq!(next.wait(SOON), Ok("after it"), "what was asked for happens all the same");
    }

    #[test]
    fn without_a_library_everybody_is_told_and_its_reason_is_kept() {
        let path = std::path::Path::new("/nowhere/libnvidia-ml.so.1");
        let (worker, ended) = Worker::start(move |serve| crate::open(Some(path), |gpus| serve(gpus)));
        let reason = ended.wait(SOON).unwrap();
        assert!(matches!(reason, Err(Error::NoLibrary { .. })), "{reason:?}");
        assert_eq!(worker.ask(|gpus| gpus.enumerate()).wait(SOON), Err(Unanswered::Gone));
    }
}
