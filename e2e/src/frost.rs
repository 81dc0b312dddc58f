//! Stops an operator of this process at any point, as SIGSTOP stops a process: each of its threads waits,
//! wherever in its work it is, until it may continue.

use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::Waker;

use tokio::runtime::Handle;

/// How many threads run the tasks of an operator, beside the one that runs its
/// loop.
pub(crate) const WORKERS: usize = 2;

/// What keeps the threads of one operator from going on. Its clones are the
/// same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frost(Arc<State>);

#[derive(Debug, Default)]
struct State {
    frozen: Mutex<Frozen>,
    changed: Condvar,
    runtime: Mutex<Option<Handle>>,
    /// Wakes the loop, so that it comes to where it stops.
    waker: Mutex<Option<Waker>>,
}

#[derive(Debug, Default)]
struct Frozen {
    is: bool,
    /// How many threads are kept.
    kept: usize,
}

impl Frost {
    /// The runtime whose threads it stops.
    pub(crate) fn reaches(&self, runtime: &Handle) {
        *self.0.runtime.lock().unwrap_or_else(PoisonError::into_inner) = Some(runtime.clone());
    }

    /// Stops all threads, each at the next moment at which it would turn to
    /// something else, and returns when they have stopped.
    pub(crate) fn freeze(&self) {
        let mut frozen = self.0.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        frozen.is = true;
        let runtime = self.0.runtime.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for _ in 0..WORKERS {
            let frost = self.clone();
            // A task that does not return keeps its thread.
            if let Some(runtime) = &runtime {
                runtime.spawn(async move { frost.wait() });
            }
        }
        let waker = self.0.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let threads = WORKERS + usize::from(waker.is_some());
        if let Some(waker) = waker {
            waker.wake();
        }
        drop(self.0.changed.wait_while(frozen, |frozen| frozen.kept < threads));
    }

    /// Lets them go on.
    pub(crate) fn thaw(&self) {
        self.0.frozen.lock().unwrap_or_else(PoisonError::into_inner).is = false;
        self.0.changed.notify_all();
    }

    /// Keeps this thread for as long as it is frozen.
    fn wait(&self) {
        let mut frozen = self.0.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        if frozen.is {
            frozen.kept += 1;
            self.0.changed.notify_all();
            let mut thawed =
                self.0.changed.wait_while(frozen, |frozen| frozen.is).unwrap_or_else(PoisonError::into_inner);
            thawed.kept -= 1;
        }
    }

    /// The same work, which stops as well.
    pub(crate) async fn over<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        std::future::poll_fn(|context| {
            *self.0.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
            self.wait();
            work.as_mut().poll(context)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_frozen_does_nothing_and_goes_on_where_it_was() {
        let frost = Frost::default();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build().unwrap();
        frost.reaches(runtime.handle());
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        runtime.spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let at_least = |many: usize| {
            while count.load(Ordering::Relaxed) < many {
                std::thread::yield_now();
            }
        };
        at_least(5);
        frost.freeze();
        let (begun, begins) = std::sync::mpsc::channel();
        runtime.spawn(async move { begun.send(()) });
        assert!(begins.recv_timeout(Duration::from_millis(200)).is_err(), "a thread goes on");
        let stands = count.load(Ordering::Relaxed);
        assert!(begins.recv_timeout(Duration::from_millis(100)).is_err());
        assert_eq!(count.load(Ordering::Relaxed), stands);
        frost.thaw();
        begins.recv().unwrap();
        at_least(stands + 5);
        runtime.shutdown_background();
    }
}
