//! GPUs whose slices have serial numbers: one that is destroyed and created
//! again in its place has the same UUID, which would hide a breach.

use std::collections::{BTreeMap, BTreeSet};

use agent::{Act, DeviceId, GpuLayout, GpuState, GpuUuid, NodeLayout, Place, Slice, SliceName};

#[derive(Clone, Debug, Default)]
pub(crate) struct Gpus {
    pub(crate) slices: BTreeMap<GpuUuid, BTreeMap<Place, u64>>,
    pub(crate) serial: u64,
    /// What the driver refuses, and how often still.
    pub(crate) refuses: BTreeMap<(Act, SliceName), u32>,
    /// GPUs about which the driver does not answer.
    pub(crate) silent: BTreeSet<GpuUuid>,
    /// GPUs about which the agent cannot read what the driver answers. The plugin
    /// can, and offers what they have.
    pub(crate) unread: BTreeSet<GpuUuid>,
    /// GPUs that the driver does not have (yet).
    pub(crate) absent: BTreeSet<GpuUuid>,
}

/// `1g@0 3g@4` as places of an A100-80GB.
pub(crate) fn places(text: &str) -> BTreeSet<Place> {
    let one = |word: &str| {
        let (profile, start) = word.split_once('@').unwrap();
        let gb = match profile {
            "1g" => 10,
            "2g" => 20,
            "3g" | "4g" => 40,
            _ => 80,
        };
        Place { profile: format!("{profile}.{gb}gb").parse().unwrap(), start: start.parse().unwrap() }
    };
    text.split_whitespace().map(one).collect()
}

/// The UUID of a slice goes by its place, as on real hardware.
pub(crate) fn device(name: &SliceName) -> DeviceId {
    DeviceId(format!("MIG-{}-{}", name.gpu, name.place))
}

fn units(place: Place) -> std::ops::Range<u8> {
    let size = match place.profile.compute {
        3 | 4 => 4,
        7 => 8,
        small => small,
    };
    place.start..place.start + size
}

impl Gpus {
    pub(crate) fn put(&mut self, gpu: &GpuUuid, places: &BTreeSet<Place>) {
        for place in places {
            self.serial += 1;
            self.slices.entry(gpu.clone()).or_default().insert(*place, self.serial);
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (SliceName, u64)> {
        self.slices.iter().flat_map(|(gpu, slices)| {
            slices.iter().map(|(place, serial)| (SliceName { gpu: gpu.clone(), place: *place }, *serial))
        })
    }

    pub(crate) fn has_serial(&self, serial: u64) -> bool {
        self.all().any(|(_, other)| other == serial)
    }

    /// Whether the driver answers about a GPU.
    pub(crate) fn answers(&self, gpu: &GpuUuid) -> bool {
        !self.silent.contains(gpu) && !self.absent.contains(gpu)
    }

    pub(crate) fn layout(&self) -> NodeLayout {
        let gpu = |(uuid, slices): (&GpuUuid, &BTreeMap<Place, u64>)| {
            if self.silent.contains(uuid) || self.unread.contains(uuid) {
                let why = "GPU is lost".to_owned();
                return GpuLayout { uuid: uuid.clone(), state: GpuState::Silent { why } };
            }
            let slice = |place: &Place| {
                let name = SliceName { gpu: uuid.clone(), place: *place };
                Slice { place: *place, devices: vec![device(&name)], busy: false }
            };
            GpuLayout { uuid: uuid.clone(), state: GpuState::Cut(slices.keys().map(slice).collect()) }
        };
        let there = self.slices.iter().filter(|(uuid, _)| !self.absent.contains(*uuid));
        NodeLayout { gpus: there.map(gpu).collect() }
    }

    /// Does it; the serial of what was destroyed.
    pub(crate) fn drive(&mut self, act: Act, name: &SliceName) -> Result<Option<u64>, String> {
        if let Some(left) = self.refuses.get_mut(&(act, name.clone())).filter(|left| **left > 0) {
            *left -= 1;
            return Err("in use by another client".to_owned());
        }
        let slices = self.slices.entry(name.gpu.clone()).or_default();
        match act {
            Act::Destroy => Ok(slices.remove(&name.place)),
            Act::Create if slices.contains_key(&name.place) => Ok(None),
            Act::Create => {
                let want = units(name.place);
                if want.end > 8
                    || slices.keys().any(|p| units(*p).start < want.end && want.start < units(*p).end)
                {
                    return Err("insufficient resources".to_owned());
                }
                self.serial += 1;
                slices.insert(name.place, self.serial);
                Ok(None)
            }
        }
    }
}
