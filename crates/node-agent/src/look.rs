//! One look at the node, in the order on which the proof rests: what kubelet can give away, its books, the layout
//! (`docs/adr/0013-node-agent.md`). What cannot be seen is no error: it becomes part of what is seen.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use agent::{Books, Device, Gate, Look, Seen, Turn, books};
use controller::class::chain;

use crate::driver::{Driver, DriverError};
use crate::hardware::{self, Cards};
use crate::kubelet::checkpoint::{self, CheckpointError};
use crate::kubelet::{Kubelet, KubeletError, Session};

/// Counts what this process reads and does.
#[derive(Debug, Default)]
pub struct Turns(u64);

impl Turns {
    /// The next moment.
    pub fn tick(&mut self) -> Turn {
        self.0 = self.0.saturating_add(1);
        Turn(self.0)
    }
}

/// What the agent looks with.
#[derive(Clone, Debug)]
pub struct Eyes {
    /// Kubelet's socket.
    pub kubelet: Kubelet,
    /// Kubelet's checkpoint.
    pub checkpoint: PathBuf,
    /// NVIDIA's driver.
    pub driver: Driver,
}

/// What one look found.
#[derive(Debug)]
pub struct NodeReading {
    /// For the core.
    pub look: Look,
    /// The devices by which the gate is what it is; `None` where kubelet gave
    /// no answer.
    pub offered: Option<BTreeSet<Device>>,
    /// The driver's version, where it said so.
    pub driver: Option<String>,
    /// What could not be seen, for the log and for people.
    pub blind: Blind,
}

/// What could not be seen.
#[derive(Debug, Default)]
pub struct Blind {
    /// What kubelet can give away.
    pub gate: Option<Arc<KubeletError>>,
    /// `List`.
    pub list: Option<Arc<KubeletError>>,
    /// The checkpoint.
    pub checkpoint: Option<CheckpointError>,
    /// The GPUs.
    pub driver: Option<DriverError>,
}

impl Blind {
    /// Each of it in words, without the details that change with each attempt.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let Self { gate, list, checkpoint, driver } = self;
        let kubelet = gate.as_deref().or(list.as_deref()).map(|error| chain(error));
        let rest = [checkpoint.as_ref().map(|error| chain(error)), driver.as_ref().map(|error| chain(error))];
        kubelet.into_iter().chain(rest.into_iter().flatten()).collect()
    }
}

impl Eyes {
    /// Looks. `cards` is what was known of the GPUs, and learns; so does
    /// `renamed`, what was said of the names of devices when some were offered.
    pub async fn look(
        &self,
        turns: &mut Turns,
        cards: &mut Cards,
        renamed: &mut Option<String>,
    ) -> NodeReading {
        let Self { kubelet, checkpoint, driver } = self;
        let gate_turn = turns.tick();
        let session = kubelet.connect().await.map_err(Arc::new);
        let healthy = ask(&session, async |session| session.healthy().await).await;
        let books_turn = turns.tick();
        let listed = ask(&session, async |session| session.list().await).await;
        drop(session);
        let path = checkpoint.clone();
        let recorded = tokio::task::spawn_blocking(move || checkpoint::read(&path)).await;
        let recorded = recorded.unwrap_or_else(|gone| {
            let source = std::io::Error::other(gone);
            Err(CheckpointError::Unreadable { path: checkpoint.clone(), source })
        });
        let layout_turn = turns.tick();
        let machine = driver.look().await;
        let layout = match &machine {
            Ok(machine) => hardware::layout(machine, cards),
            Err(error) => hardware::silent(&chain(error), cards),
        };
        // Behind a closed gate nothing has a name; whoever was about to get something then has asked by that of before.
        if let Some(offered) = healthy.as_deref().ok().filter(|devices| devices.iter().any(Device::is_gpu)) {
            *renamed = books::renamed(offered, &layout);
        }
        let books = Books::join(
            listed.as_deref().map_err(|error| chain(error.as_ref())),
            recorded.as_deref().map_err(|error| chain(error)),
        );
        let books = books.doubted(renamed.clone());
        let gate = Gate::from_devices(healthy.as_deref().ok(), &layout);
        NodeReading {
            look: Look {
                gate: Seen { turn: gate_turn, is: gate },
                books: Seen { turn: books_turn, is: books },
                layout: Seen { turn: layout_turn, is: layout },
            },
            offered: healthy.as_ref().ok().map(|devices| devices.iter().cloned().collect()),
            driver: machine.as_ref().ok().map(|machine| machine.found.driver.clone()),
            blind: Blind {
                gate: healthy.err(),
                list: listed.err(),
                checkpoint: recorded.err(),
                driver: machine.err(),
            },
        }
    }

    /// What kubelet can give away, and nothing else: this may be asked often,
    /// `List` may not. `None` where there is no answer. A set, since kubelet
    /// tells its devices in another order each time.
    pub async fn offered(&self) -> Option<BTreeSet<Device>> {
        let session = self.kubelet.connect().await.ok()?;
        Some(session.healthy().await.ok()?.into_iter().collect())
    }
}

async fn ask<T>(
    session: &Result<Session, Arc<KubeletError>>,
    question: impl AsyncFnOnce(&Session) -> Result<T, KubeletError>,
) -> Result<T, Arc<KubeletError>> {
    match session {
        Ok(session) => question(session).await.map_err(Arc::new),
        Err(error) => Err(Arc::clone(error)),
    }
}
