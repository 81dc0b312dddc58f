//! Changes: the MIG mode, and the creation and destruction of slices. After each change the GPU is read
//! again, and its state decides whether the change succeeded.

use crate::code::Code;
use crate::error::Error;
use crate::hardware::read::{self, Offered};
use crate::library::{
    Activation, Gpu as GpuHandle, GpuInstance, GpuProfile, Library, MigMode, Mode, Placement,
};
use crate::port::{Answer, Created, Destroyed, GpuUuid, Layout, ModeSet, Place, PortError, Slice, Span};

/// A change of one GPU.
pub(super) struct Change<'c, 'l> {
    library: &'l Library,
    gpu: &'c GpuHandle<'l>,
    uuid: &'c GpuUuid,
}

impl<'c, 'l> Change<'c, 'l> {
    pub(super) const fn new(library: &'l Library, gpu: &'c GpuHandle<'l>, uuid: &'c GpuUuid) -> Self {
        Self { library, gpu, uuid }
    }

    fn driver(&self, doing: &'static str) -> impl Fn(Error) -> PortError {
        let gpu = self.uuid.clone();
        move |source| PortError::Driver { doing, gpu: gpu.clone(), source }
    }

    fn mode(&self) -> Answer<MigMode> {
        self.gpu.mig_mode().map_err(|error| match error.code() {
            Some(Code::NotSupported) => PortError::NoMig { gpu: self.uuid.clone() },
            _ => self.driver("read the MIG mode of")(error),
        })
    }

    fn layout(&self) -> Answer<Layout> {
        read::layout(self.library, self.gpu).map_err(self.driver("read the layout of"))
    }

    pub(super) fn set_mode(&self, mode: Mode) -> Answer<ModeSet> {
        let wanted = MigMode { current: mode, pending: mode };
        let before = self.mode()?;
        if before == wanted {
            return Ok(ModeSet::AlreadySo);
        }
        if mode == Mode::Disabled && before.current == Mode::Enabled {
            let there = self.layout()?.slices;
            if !there.is_empty() {
                let name = |slice: &Slice| slice.place().map_or(slice.profile.clone(), |p| p.to_string());
                let slices = there.iter().map(name).collect();
                return Err(PortError::HasSlices { gpu: self.uuid.clone(), slices });
            }
        }
        let said = self.gpu.set_mig_mode(mode);
        // The call succeeds whether the mode is in force or waits; and where its answer was lost, it may
        // have worked all the same.
        let after = self.mode()?;
        match said {
            _ if after == wanted => Ok(ModeSet::Changed),
            Err(source) => Err(self.driver("change the MIG mode of")(source)),
            Ok(Activation::Pending(why)) => Ok(ModeSet::Pending { why }),
            Ok(Activation::Done) if after.pending == mode => {
                Ok(ModeSet::Pending { why: Code::ResetRequired })
            }
            Ok(Activation::Done) => Err(self.no_effect(format!("switching MIG {mode}"))),
        }
    }

    fn no_effect(&self, what: String) -> PortError {
        PortError::NoEffect { gpu: self.uuid.clone(), what }
    }

    /// The profile and the span of a place.
    fn resolve(&self, place: &Place) -> Answer<(GpuProfile, Span)> {
        if self.mode()?.current == Mode::Disabled {
            return Err(PortError::MigIsOff { gpu: self.uuid.clone() });
        }
        let offered = read::profiles(self.gpu).map_err(self.driver("read the profiles of"))?;
        let Some(Offered { described, profile, withheld }) =
            offered.iter().find(|offered| offered.profile.name == place.profile)
        else {
            let known = offered.into_iter().map(|offered| offered.profile.name).collect();
            let profile = place.profile.clone();
            return Err(PortError::NoSuchProfile { gpu: self.uuid.clone(), profile, known });
        };
        if let Some(source) = withheld {
            return Err(self.driver("read the places of")(source.clone()));
        }
        let Some(span) = profile.places.iter().find(|span| span.start == place.start) else {
            let starts = profile.places.iter().map(|span| span.start).collect();
            return Err(PortError::NoSuchPlace { gpu: self.uuid.clone(), place: place.clone(), starts });
        };
        Ok((described.clone(), *span))
    }

    pub(super) fn create(&self, place: &Place) -> Answer<Created> {
        let (profile, span) = self.resolve(place)?;
        let layout = self.layout()?;
        if let Some(there) = layout.at(place) {
            return match there.devices.len() {
                _ if there.is_whole() => Ok(Created::AlreadyThere(there.clone())),
                0 => {
                    let instance = self.gpu.gpu_instance(there.gpu_instance);
                    let said = instance.and_then(|instance| fill(&instance, &profile));
                    self.is_there(place, said, Remains::WasThere).map(Created::Completed)
                }
                parts => Err(PortError::Divided { gpu: self.uuid.clone(), place: place.clone(), parts }),
            };
        }
        let in_the_way =
            layout.slices.iter().filter(|slice| slice.span.is_some_and(|taken| taken.overlaps(span)));
        if let Some(by) = in_the_way.filter_map(Slice::place).next() {
            return Err(PortError::Occupied { gpu: self.uuid.clone(), place: place.clone(), by });
        }
        let at = Placement { start: span.start.into(), size: span.size.into() };
        let said = self.gpu.create_gpu_instance_at(profile.id, at);
        let said = said.and_then(|instance| match fill(&instance, &profile) {
            // The instance that was given is none: there is nothing to fill, and nothing was done.
            Err(error) if error.code() == Some(Code::InvalidArgument) && instance.info().is_err() => Ok(()),
            said => said,
        });
        self.is_there(place, said, Remains::TakeBack).map(Created::New)
    }

    /// Reads whether a slice is there, whole, whatever was said. What this
    /// call made in part it takes back, so that a failed call leaves nothing.
    fn is_there(&self, place: &Place, said: crate::Result<()>, part: Remains) -> Answer<Slice> {
        let layout = match (self.layout(), &said) {
            (Ok(layout), _) => layout,
            // It cannot be read: what failed first is the first thing to know.
            (Err(_), Err(source)) => return Err(self.driver("create a slice of")(source.clone())),
            (Err(unreadable), Ok(())) => return Err(unreadable),
        };
        let Some(slice) = layout.at(place) else {
            return Err(match said {
                Err(source) => self.driver("create a slice of")(source),
                Ok(()) => self.no_effect(format!("creating {place}")),
            });
        };
        if slice.is_whole() {
            return Ok(slice.clone());
        }
        let taken_back = part == Remains::TakeBack
            && slice.devices.is_empty()
            && self.gpu.gpu_instance(slice.gpu_instance).and_then(GpuInstance::destroy).is_ok();
        Err(match said {
            Err(source) if taken_back => self.driver("create a slice of")(source),
            Err(source) => PortError::Incomplete { gpu: self.uuid.clone(), place: place.clone(), source },
            Ok(()) => self.no_effect(format!("creating what programs open of {place}")),
        })
    }

    pub(super) fn destroy(&self, place: &Place) -> Answer<Destroyed> {
        let layout = self.layout()?;
        let Some(slice) = layout.at(place) else { return Ok(Destroyed::AlreadyGone) };
        let instance = self.gpu.gpu_instance(slice.gpu_instance);
        let said = instance.and_then(empty_and_destroy);
        let after = self.layout()?;
        let Some(left) = after.at(place) else { return Ok(Destroyed::Gone) };
        match said {
            Ok(()) => Err(self.no_effect(format!("destroying {place}"))),
            // Its compute instances were all said to be gone, and are what is in the way.
            Err(Error::Failed { call: GpuInstance::DESTROY, code: Code::InUse })
                if !left.devices.is_empty() =>
            {
                Err(self.no_effect(format!("destroying what programs open of {place}")))
            }
            Err(error) if error.code() == Some(Code::InUse) => {
                let processes = layout.on(slice).cloned().collect();
                Err(PortError::InUse { gpu: self.uuid.clone(), place: place.clone(), processes })
            }
            Err(source) => Err(self.driver("destroy a slice of")(source)),
        }
    }
}

/// What becomes of a slice that is there in part after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remains {
    /// This call made it, and takes it back.
    TakeBack,
    /// It was there before, and stays.
    WasThere,
}

/// Gives a GPU instance the one compute instance that has all of it.
fn fill(instance: &GpuInstance<'_>, profile: &GpuProfile) -> crate::Result<()> {
    let offered = instance.compute_profiles()?;
    let call = "nvmlGpuInstanceGetComputeInstanceProfileInfo";
    let whole = read::whole(&offered, profile)
        .ok_or_else(|| Error::nonsense(call, "no compute instance profile that has all of the instance"))?;
    instance.create_compute_instance(whole.id).map(drop)
}

/// Destroys a GPU instance and what is in it. Compute instances go first: the
/// driver asks for it. One that says that it cannot go may be gone all the
/// same, so the GPU instance is tried in any case: it only goes when it is
/// empty.
fn empty_and_destroy(instance: GpuInstance<'_>) -> crate::Result<()> {
    let mut failed = None;
    for profile in instance.compute_profiles()? {
        for compute in instance.compute_instances(profile.id)? {
            failed = failed.or(compute.destroy().err());
        }
    }
    instance.destroy().map_err(|error| failed.unwrap_or(error))
}
