//! The port over the real library, or over any that speaks its interface.
//!
//! All facts come from the driver: the profiles of a GPU, their placements, their names. Our own tables are
//! not used, so a GPU that is missing there works too.

mod change;
mod read;

use std::path::Path;
use std::time::Duration;

use nvml_wrapper::bitmasks::event::EventTypes;

use crate::error::Error;
use crate::hardware::change::Change;
use crate::library::{EventSet, Gpu as GpuHandle, Library, Mode};
use crate::port::{
    Answer, Created, Destroyed, Event, Found, GpuUuid, Gpus, Happened, Layout, ModeSet, Place, PortError,
    Profile,
};

/// The GPUs behind a library.
#[derive(Debug)]
pub struct Hardware<'l> {
    library: &'l Library,
    /// Asked for with the first call for events.
    events: Option<EventSet<'l>>,
}

impl<'l> Hardware<'l> {
    /// The GPUs behind this library.
    #[must_use]
    pub const fn new(library: &'l Library) -> Self {
        Self { library, events: None }
    }

    /// Finds a GPU by its name that outlasts handles.
    fn gpu(&self, uuid: &GpuUuid) -> Answer<GpuHandle<'l>> {
        let missing = |source: Error| match source.code() {
            Some(crate::Code::NotFound) => {
                PortError::NoSuchGpu { gpu: uuid.clone(), known: self.uuids().unwrap_or_default() }
            }
            _ => PortError::Driver { doing: "find", gpu: uuid.clone(), source },
        };
        self.library.gpu_by_uuid(&uuid.0).map_err(missing)
    }

    fn uuids(&self) -> crate::Result<Vec<GpuUuid>> {
        (0..self.library.gpu_count()?).map(|i| Ok(GpuUuid(self.library.gpu(i)?.uuid()?))).collect()
    }

    /// The set of events, in which every GPU is that has any. Which GPUs have
    /// none is no error: events only make one look sooner.
    fn event_set(&mut self) -> crate::Result<&EventSet<'l>> {
        if self.events.is_none() {
            let set = self.library.event_set()?;
            for index in 0..self.library.gpu_count()? {
                let wanted = EventTypes::MIG_CONFIG_CHANGE
                    | EventTypes::CRITICAL_XID_ERROR
                    | EventTypes::DOUBLE_BIT_ECC_ERROR;
                let _ = self.library.gpu(index).and_then(|gpu| set.register(&gpu, wanted));
            }
            self.events = Some(set);
        }
        Ok(self.events.as_ref().expect("it was made just now"))
    }
}

/// Loads the library by its usual name, or the one at a path, and lends its
/// GPUs out; the thread that calls this owns them meanwhile.
///
/// # Errors
/// The library is not there or does not start.
pub fn open<T>(library: Option<&Path>, work: impl FnOnce(&mut Hardware<'_>) -> T) -> Result<T, Error> {
    let library = Library::load(library)?;
    Ok(work(&mut Hardware::new(&library)))
}

impl Gpus for Hardware<'_> {
    fn enumerate(&mut self) -> Answer<Found> {
        read::enumerate(self.library).map_err(|source| PortError::Library { source })
    }

    fn profiles(&mut self, gpu: &GpuUuid) -> Answer<Vec<Profile>> {
        let handle = self.gpu(gpu)?;
        let doing = "read the profiles of";
        let offered = read::profiles(&handle);
        let offered = offered.map_err(|source| PortError::Driver { doing, gpu: gpu.clone(), source })?;
        Ok(offered.into_iter().map(|offered| offered.profile).collect())
    }

    fn layout(&mut self, gpu: &GpuUuid) -> Answer<Layout> {
        let handle = self.gpu(gpu)?;
        let doing = "read the layout of";
        read::layout(self.library, &handle).map_err(|source| PortError::Driver {
            doing,
            gpu: gpu.clone(),
            source,
        })
    }

    fn set_mode(&mut self, gpu: &GpuUuid, mode: Mode) -> Answer<ModeSet> {
        let handle = self.gpu(gpu)?;
        Change::new(self.library, &handle, gpu).set_mode(mode)
    }

    fn create(&mut self, gpu: &GpuUuid, place: &Place) -> Answer<Created> {
        let handle = self.gpu(gpu)?;
        Change::new(self.library, &handle, gpu).create(place)
    }

    fn destroy(&mut self, gpu: &GpuUuid, place: &Place) -> Answer<Destroyed> {
        let handle = self.gpu(gpu)?;
        Change::new(self.library, &handle, gpu).destroy(place)
    }

    fn events(&mut self, at_most: Duration) -> Answer<Vec<Event>> {
        /// More than this at once would keep the caller from everything else.
        const MOST: usize = 1000;
        let failed = |source| PortError::Library { source };
        let set = self.event_set().map_err(failed)?;
        let mut events = Vec::new();
        let mut wait = at_most;
        while events.len() < MOST {
            let Some(event) = set.wait(wait).map_err(failed)? else { break };
            let gpu = event.gpu.uuid().ok().map(GpuUuid);
            let kinds = [
                (EventTypes::MIG_CONFIG_CHANGE, Some(Happened::Repartitioned)),
                (EventTypes::CRITICAL_XID_ERROR, event.xid.map(Happened::Xid)),
                (EventTypes::DOUBLE_BIT_ECC_ERROR, Some(Happened::MemoryError)),
            ];
            let told = kinds.into_iter().filter(|(kind, _)| event.kinds.contains(*kind));
            events.extend(told.filter_map(|(_, what)| Some(Event { gpu: gpu.clone(), what: what? })));
            wait = Duration::ZERO;
        }
        Ok(events)
    }
}
