//! From the driver's answers to the terms of the core. What cannot be read exactly, or contradicts itself, makes its
//! GPU silent: nothing of it is then destroyed, and nothing of it counts as free.

use std::collections::{BTreeMap, BTreeSet};

use agent::{DeviceId, GpuLayout, GpuState, GpuUuid, NodeLayout, Place, Slice};
use api::node_agent::Card;
use controller::class::chain;
use mig::Catalog;
use nvml::port::Mode;
use nvml::port::{self, Answer, Gpu};

use crate::driver::Machine;

/// What is known of the GPUs beside their slices; it outlasts one look, so that a GPU that falls silent keeps its name.
pub type Cards = BTreeMap<GpuUuid, Card>;

/// The layout of all GPUs, in the order of their UUIDs. `cards` learns the GPUs
/// that answer; those that do not, and that it knows, are silent.
#[must_use]
pub fn layout(machine: &Machine, cards: &mut Cards) -> NodeLayout {
    let Machine { found, layouts } = machine;
    for gpu in &found.gpus {
        let model = Catalog::builtin().by_product_name(&gpu.name).map(|model| model.id.as_str().to_owned());
        let model = model.unwrap_or_else(|| gpu.name.clone());
        let index = u8::try_from(gpu.index).unwrap_or(u8::MAX);
        cards.insert(GpuUuid(gpu.uuid.0.clone()), Card { index, model, unhealthy: None });
    }
    // Whoever has an index now has it alone.
    let taken: BTreeMap<_, _> = found.gpus.iter().map(|gpu| (gpu.index, gpu.uuid.0.as_str())).collect();
    cards.retain(|uuid, card| taken.get(&u32::from(card.index)).is_none_or(|has| *has == uuid.0));
    let mut gpus: Vec<_> =
        found.gpus.iter().zip(layouts).map(|(gpu, layout)| gpu_layout(gpu, layout)).collect();
    let answering: BTreeSet<_> = gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
    let said: BTreeMap<_, _> =
        found.silent.iter().map(|silent| (silent.index, chain(&silent.error))).collect();
    for (uuid, card) in cards.iter().filter(|(uuid, _)| !answering.contains(uuid)) {
        let why = said.get(&u32::from(card.index)).cloned();
        let why = why.unwrap_or_else(|| "the driver no longer knows of it".to_owned());
        gpus.push(GpuLayout { uuid: uuid.clone(), state: GpuState::Silent { why } });
    }
    sorted(gpus)
}

/// The layout where the driver says nothing at all: every GPU that is known is
/// silent.
#[must_use]
pub fn silent(why: &str, cards: &Cards) -> NodeLayout {
    let silent =
        |uuid: &GpuUuid| GpuLayout { uuid: uuid.clone(), state: GpuState::Silent { why: why.to_owned() } };
    sorted(cards.keys().map(silent).collect())
}

fn sorted(mut gpus: Vec<GpuLayout>) -> NodeLayout {
    gpus.sort_by(|a, b| a.uuid.cmp(&b.uuid));
    NodeLayout { gpus }
}

fn gpu_layout(gpu: &Gpu, layout: &Answer<port::Layout>) -> GpuLayout {
    let state = match layout {
        Err(error) => GpuState::Silent { why: chain(error) },
        Ok(_) if gpu.mode.is_none_or(|mode| mode.current == Mode::Disabled) => GpuState::Whole,
        Ok(layout) => match slices(layout) {
            Ok(slices) => GpuState::Cut(slices),
            Err(why) => GpuState::Silent { why },
        },
    };
    GpuLayout { uuid: GpuUuid(gpu.uuid.0.clone()), state }
}

fn slices(layout: &port::Layout) -> Result<Vec<Slice>, String> {
    let mut slices = Vec::new();
    let (mut spans, mut known) = (Vec::<(port::Span, &str)>::new(), BTreeSet::new());
    for slice in &layout.slices {
        let name = &slice.profile;
        let span = slice.span.ok_or_else(|| {
            format!("the driver does not say where its slice {name} is: the agent must run as root")
        })?;
        if let Some((_, other)) = spans.iter().find(|(other, _)| other.overlaps(span)) {
            return Err(format!("the driver says that its slices {other} and {name} overlap"));
        }
        spans.push((span, name));
        if let Some(twice) = slice.devices.iter().find(|device| !known.insert(&device.uuid)) {
            return Err(format!("the driver names the device {} twice", twice.uuid));
        }
        let profile =
            name.parse().map_err(|error| format!("the driver has a slice of a new kind: {error}"))?;
        slices.push(Slice {
            place: Place { profile, start: span.start },
            devices: slice.devices.iter().map(|device| DeviceId(device.uuid.clone())).collect(),
            busy: layout.on(slice).next().is_some(),
        });
    }
    slices.sort_by_key(|slice| (slice.place.start, slice.place));
    Ok(slices)
}
