//! Properties of any machine, checked only by reading.

use std::collections::BTreeSet;

use super::{ok, refused};
use crate::port::{Gpu, GpuUuid, Gpus, Layout, Mode, PortError, Profile};

/// Reads everything there is, and checks that it hangs together. Says what was
/// read, one line a GPU, so that a run on hardware leaves a record.
#[must_use]
pub fn reading(gpus: &mut dyn Gpus) -> Vec<String> {
    let found = ok(gpus.enumerate());
    assert_eq!(ok(gpus.enumerate()), found, "two looks at an idle machine agree");
    assert!(!found.driver.is_empty());
    let uuids: BTreeSet<_> = found.gpus.iter().map(|gpu| &gpu.uuid).collect();
    assert_eq!(uuids.len(), found.gpus.len(), "UUIDs are unique: {found:?}");
    let nobody = GpuUuid("GPU-00000000-0000-0000-0000-000000000000".to_owned());
    let unknown = refused(gpus.layout(&nobody));
    assert!(matches!(unknown, PortError::NoSuchGpu { .. }), "{unknown:?}");
    found.gpus.iter().map(|gpu| read(gpus, gpu)).collect()
}

fn read(gpus: &mut dyn Gpus, gpu: &Gpu) -> String {
    assert!(!gpu.name.is_empty() && !gpu.bus_id.is_empty() && gpu.memory_mib > 0, "{gpu:?}");
    let profiles = ok(gpus.profiles(&gpu.uuid));
    if gpu.mode.is_none() {
        assert_eq!(profiles, [], "profiles without MIG");
    }
    profiles_hang_together(&profiles, gpu.memory_mib);
    let layout = ok(gpus.layout(&gpu.uuid));
    if gpu.mode.is_none_or(|mode| mode.current == Mode::Disabled) {
        assert_eq!(layout.slices, [], "slices with MIG off");
    }
    layout_hangs_together(&layout, &profiles);
    let mode = gpu.mode.map_or("without MIG".to_owned(), |mode| format!("MIG {}", mode.current));
    format!(
        "GPU {} {}: {mode}, {} profiles, {} slices",
        gpu.index,
        gpu.name,
        profiles.len(),
        layout.slices.len()
    )
}

fn profiles_hang_together(profiles: &[Profile], memory_mib: u64) {
    let names: BTreeSet<_> = profiles.iter().map(|profile| &profile.name).collect();
    let ids: BTreeSet<_> = profiles.iter().map(|profile| profile.id).collect();
    assert_eq!((names.len(), ids.len()), (profiles.len(), profiles.len()), "{profiles:?}");
    // The driver tells places to the privileged only: all, or none.
    let told = profiles.iter().any(|profile| !profile.places.is_empty());
    for profile in profiles {
        assert!(profile.slices > 0 && profile.max_instances > 0, "{profile:?}");
        assert!(profile.memory_mib > 0 && profile.memory_mib <= memory_mib, "{profile:?}");
        assert_eq!(!profile.places.is_empty(), told, "{profile:?}");
        assert!(profile.places.is_sorted_by(|a, b| a.start < b.start), "{profile:?}");
        assert!(profile.places.iter().all(|span| span.size == profile.places[0].size), "{profile:?}");
        assert!(profile.places.iter().all(|span| span.size > 0), "{profile:?}");
    }
}

fn layout_hangs_together(layout: &Layout, profiles: &[Profile]) {
    let mut uuids = BTreeSet::new();
    for slice in &layout.slices {
        for device in &slice.devices {
            assert!(uuids.insert(&device.uuid), "{layout:?}");
        }
        let Some(span) = slice.span else { continue };
        let profile = profiles.iter().find(|profile| profile.name == slice.profile);
        let profile = profile.unwrap_or_else(|| panic!("a slice of no profile: {slice:?}"));
        assert!(profile.places.contains(&span), "{slice:?} is where {profile:?} cannot be");
        let others = layout.slices.iter().filter(|other| other.gpu_instance != slice.gpu_instance);
        let overlap = others.filter_map(|other| other.span).any(|other| other.overlaps(span));
        assert!(!overlap, "slices overlap: {layout:?}");
    }
}
