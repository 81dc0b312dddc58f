//! The suite over the simulator's shared library: the real adapter, and NVML's C interface. Each story runs
//! in a process of its own, with a node of its own, because a process has only one library.

use std::path::{Path, PathBuf};
use std::process::Command;

use gpu::Machine;
use nvml::conformance::{Bench, CHANGING, Story, reading};
use nvml::port::{Gpus, Mode, Place};
use nvml::{Code, Library};
use store::{State, Store};

use crate::others::{Behind, machine};

/// Says to this program that it is the process of one story, and which.
const STORY: &str = "SLICEWRIGHT_CONFORMANCE_STORY";

/// The library that cargo built beside this program.
fn library() -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name("libsimulated_nvml.so");
    assert!(library.exists(), "{} is not built", library.display());
    library
}

/// This process's node, and the library over it.
struct Shared {
    directory: PathBuf,
}

impl Bench for Shared {
    fn play(&self, story: Story) {
        let store = Store::create(&self.directory, State::new(machine())).unwrap();
        let others = Behind(|work: &mut dyn FnMut(&mut Machine)| {
            store.update(|state| work(&mut state.machine)).unwrap();
        });
        nvml::open(Some(&library()), |gpus| story(gpus, &others)).unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "a test that starts itself once more")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Runs a test of this program again, in a process with a node of its own.
#[track_caller]
fn again(test: &str, story: &str, privileged: &str) {
    let directory = tempfile::tempdir().unwrap();
    let ran = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(STORY, story)
        .env(store::DIRECTORY_VARIABLE, directory.path().join("node"))
        .env("SLICEWRIGHT_SIM_PRIVILEGED", privileged)
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && text.contains("1 passed"), "{story}\n{text}");
}

fn directory() -> PathBuf {
    PathBuf::from(variable(store::DIRECTORY_VARIABLE).unwrap())
}

#[test]
fn the_shared_library_keeps_what_the_port_promises() {
    const TEST: &str = "shared::the_shared_library_keeps_what_the_port_promises";
    match variable(STORY) {
        Some(name) => {
            let (_, story) = CHANGING.iter().find(|(n, _)| *n == name).unwrap();
            Shared { directory: directory() }.play(*story);
        }
        None => CHANGING.iter().for_each(|(name, _)| again(TEST, name, "1")),
    }
}

#[test]
fn what_the_shared_library_tells_hangs_together() {
    const TEST: &str = "shared::what_the_shared_library_tells_hangs_together";
    let Some(_) = variable(STORY) else { return again(TEST, "reading", "1") };
    Store::create(&directory(), State::new(machine())).unwrap();
    let read = nvml::open(Some(&library()), |gpus| reading(gpus)).unwrap();
    assert_eq!(read[1], "GPU 1 Tesla T4: without MIG, 0 profiles, 0 slices");
    assert_eq!(read.len(), 3);
}

/// What an ordinary user sees, and what it may not do.
#[test]
fn without_privileges_one_sees_what_programs_see_and_changes_nothing() {
    const TEST: &str = "shared::without_privileges_one_sees_what_programs_see_and_changes_nothing";
    let Some(_) = variable(STORY) else { return again(TEST, "user", "0") };
    let mut machine = machine();
    cut(&mut machine);
    Store::create(&directory(), State::new(machine)).unwrap();
    nvml::open(Some(&library()), |gpus| {
        let gpu = gpus.enumerate().unwrap().gpus[0].uuid.clone();
        let layout = gpus.layout(&gpu).unwrap();
        let [slice] = layout.slices.as_slice() else { panic!("{layout:?}") };
        assert_eq!((slice.profile.as_str(), slice.span, slice.is_whole()), ("3g.40gb", None, true));
        let profiles = gpus.profiles(&gpu).unwrap();
        // Drivers tell everybody where instances may be, whatever the header says.
        assert!(profiles.len() >= 6 && profiles.iter().all(|p| !p.places.is_empty()), "{profiles:?}");
        assert_eq!(reading(gpus).len(), 3);
        let may_not = gpus.create(&gpu, &Place::new("1g.10gb", 0)).unwrap_err();
        assert_eq!(may_not.code(), Some(Code::NoPermission), "{may_not:?}");
        let other = gpus.enumerate().unwrap().gpus[2].uuid.clone();
        let may_not = gpus.set_mode(&other, Mode::Enabled).unwrap_err();
        assert_eq!(may_not.code(), Some(Code::NoPermission), "{may_not:?}");
    })
    .unwrap();
}

fn cut(machine: &mut Machine) {
    let mut nvml = machine.nvml(gpu::Caller::Root);
    let device = nvml.device_handle_by_index(0).unwrap();
    nvml.set_mig_mode(device, gpu::Mode::Enabled).unwrap();
    let slice = nvml.create_gpu_instance(device, 9).unwrap();
    nvml.create_compute_instance(slice, 2).unwrap();
}

/// A machine on which nothing was set up is told in words.
#[test]
fn a_machine_that_is_not_set_up_is_told_what_to_do() {
    const TEST: &str = "shared::a_machine_that_is_not_set_up_is_told_what_to_do";
    let Some(_) = variable(STORY) else { return again(TEST, "nothing", "1") };
    let error = Library::load(Some(Path::new(&library()))).unwrap_err();
    assert_eq!(error.code(), Some(Code::DriverNotLoaded));
    assert!(error.to_string().contains("load NVIDIA's kernel module"), "{error}");
}

/// The tables are where the simulator's values come from: what comes out at
/// the other end of the interface is the same.
#[test]
fn what_the_shared_library_tells_is_what_the_tables_have() {
    const TEST: &str = "shared::what_the_shared_library_tells_is_what_the_tables_have";
    let Some(_) = variable(STORY) else { return again(TEST, "tables", "1") };
    let catalog = mig::Catalog::builtin();
    let models: Vec<_> = catalog.models().iter().filter(|model| model.simulatable().is_ok()).collect();
    assert!(models.len() >= 4 && models.len() <= 32, "{}", models.len());
    let bare = Machine::new("sim-node", gpu::DriverBranch::default(), jiff::Timestamp::UNIX_EPOCH);
    let all =
        models.iter().fold(bare, |machine, model| machine.with_gpu(&gpu::Model::find(&model.id).unwrap()));
    Store::create(&directory(), State::new(all)).unwrap();
    nvml::open(Some(&library()), |gpus| {
        let found = gpus.enumerate().unwrap();
        assert_eq!(found.gpus.len(), models.len());
        for (gpu, model) in found.gpus.iter().zip(models) {
            let profiles = gpus.profiles(&gpu.uuid).unwrap();
            assert_eq!(nvml::compare::with_model(model, gpu, &profiles, &found.driver), [], "{}", model.id);
            let geometry = nvml::port::geometry(&profiles).unwrap();
            assert_eq!(
                (geometry.memory(), geometry.compute()),
                (model.geometry.memory(), model.geometry.compute())
            );
        }
    })
    .unwrap();
}

/// A card that nobody has heard of: four units of 50 GB.
fn invented() -> gpu::Model {
    let spec = |name: &str, compute, starts: &[u8]| mig::ProfileSpec {
        name: name.parse().unwrap(),
        compute,
        size: compute,
        starts: starts.to_vec(),
    };
    let specs =
        vec![spec("1g.50gb", 1, &[0, 1, 2, 3]), spec("2g.100gb", 2, &[0, 2]), spec("4g.200gb", 4, &[0])];
    let geometry = mig::Geometry::new(4, 4, specs.clone()).unwrap();
    let facts = |(index, (number, spec)): (u8, (u32, &mig::ProfileSpec))| gpu::ProfileFacts {
        index: mig::ProfileIndex(index),
        name: spec.name,
        id: 30 + u32::from(index),
        nvml_enum: number,
        slices: spec.compute,
        max_instances: 4 / spec.compute,
        sm: 40 * u32::from(spec.compute),
        memory_mib: 51_200 * u32::from(spec.compute) - 512,
        memory_mib_from_driver: std::collections::BTreeMap::new(),
        engines: gpu::Engines { copy: spec.compute.into(), ..gpu::Engines::default() },
    };
    let model = gpu::Model::find("A100-80GB").unwrap();
    let mig = gpu::MigFacts {
        architecture: mig::Architecture::Hopper,
        geometry: std::sync::Arc::new(geometry),
        profiles: (0u8..).zip([0, 1, 3].into_iter().zip(&specs)).map(facts).collect(),
    };
    gpu::Model {
        name: "X1".to_owned(),
        product: "NVIDIA X1 200GB".to_owned(),
        pci_device: Some(0xfffe),
        memory_mib: 4 * 51_200,
        mig: Some(mig),
        ..gpu::Model::clone(&model)
    }
}

#[test]
fn a_gpu_that_our_tables_do_not_have_is_cut_all_the_same() {
    const TEST: &str = "shared::a_gpu_that_our_tables_do_not_have_is_cut_all_the_same";
    let Some(_) = variable(STORY) else { return again(TEST, "unknown", "1") };
    let machine = Machine::new("sim-node", gpu::DriverBranch::default(), jiff::Timestamp::UNIX_EPOCH);
    Store::create(&directory(), State::new(machine.with_gpu(&std::sync::Arc::new(invented())))).unwrap();
    nvml::open(Some(&library()), |gpus| {
        let found = gpus.enumerate().unwrap();
        assert!(mig::Catalog::builtin().by_product_name(&found.gpus[0].name).is_none());
        let gpu = &found.gpus[0].uuid;
        gpus.set_mode(gpu, Mode::Enabled).unwrap();
        for (profile, start) in [("2g.100gb", 2), ("1g.50gb", 1)] {
            let created = gpus.create(gpu, &Place::new(profile, start)).unwrap();
            assert!(created.slice().is_whole(), "{created:?}");
        }
        assert_eq!(reading(gpus), ["GPU 0 NVIDIA X1 200GB: MIG on, 3 profiles, 2 slices"]);
        let geometry = nvml::port::geometry(&gpus.profiles(gpu).unwrap()).unwrap();
        assert_eq!((geometry.memory(), geometry.placement_count()), (4, 7));
        assert_eq!(gpus.destroy(gpu, &Place::new("2g.100gb", 2)), Ok(nvml::port::Destroyed::Gone));
    })
    .unwrap();
}
