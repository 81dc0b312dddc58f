//! The clusters that tests share: one for each test that runs at a time, each
//! emptied before the next test gets it.

use std::sync::{Condvar, Mutex, PoisonError};

use crate::provider::{Kind, Provider};

struct State {
    idle: Vec<Box<dyn Provider>>,
    lent: usize,
}

/// The clusters of this process. They end with it.
static POOL: Mutex<State> = Mutex::new(State { idle: Vec::new(), lent: 0 });
static RETURNED: Condvar = Condvar::new();

/// What a test may expect to find.
pub(crate) enum Lent {
    /// A cluster that another test used and emptied.
    Used(Box<dyn Provider>),
    /// There is none yet: start one.
    None,
}

/// Takes a cluster, or the leave to start one.
pub(crate) fn take(kind: Kind) -> Lent {
    let mut state = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(provider) = state.idle.pop() {
            state.lent += 1;
            return Lent::Used(provider);
        }
        if state.lent < kind.most() {
            state.lent += 1;
            return Lent::None;
        }
        state = RETURNED.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Gives a cluster back, if it can be used again.
pub(crate) fn give_back(provider: Option<Box<dyn Provider>>) {
    let mut state = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    state.idle.extend(provider);
    state.lent -= 1;
    RETURNED.notify_one();
}
