//! The files beside the library: their content, that they follow the state, and that files of others are
//! never changed.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use crate::support::{create, fresh, listing, mig_on};
use gpu::{Caller, DriverBranch, Machine, Mode, Model, PciClass, Topology};
use store::{State, Store};

fn a_mixed_node() -> State {
    let display = Arc::new(Model::without_mig("NVIDIA DGX Display", 4096, PciClass::Vga));
    let machine = Machine::new("dgx", DriverBranch::default(), "2026-11-20T09:00:00Z".parse().unwrap())
        .with_gpu(&Model::find("A100-80GB").unwrap())
        .with_gpu(&display);
    State::new(machine)
}

/// The paths below a folder.
fn below(all: &BTreeMap<String, String>, folder: &str) -> Vec<String> {
    let inside = all.iter().filter(|(_, what)| *what != "folder");
    inside.filter_map(|(path, _)| Some(path.strip_prefix(folder)?.to_owned())).collect()
}

#[test]
fn a_card_is_on_the_numa_node_that_the_library_tells() {
    let numa = |host| {
        let machine = Machine::new("dgx", DriverBranch::default(), "2026-11-20T09:00:00Z".parse().unwrap())
            .built_as(Topology::find(host).unwrap());
        let model = Model::find("H100-80GB").unwrap();
        let machine = (0..8).fold(machine, |machine, _| machine.with_gpu(&model));
        let (dir, root) = (fresh(), fresh());
        let store = Store::create(dir.path(), State::new(machine)).unwrap();
        store.keep_files(root.path()).unwrap();
        let all = listing(root.path());
        let numa = all.iter().filter(|(path, _)| path.ends_with("/numa_node"));
        numa.map(|(_, node)| node.trim_end().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(numa("dgx-h100"), ["0", "0", "0", "0", "1", "1", "1", "1"]);
    // With one node only, the kernel knows none.
    assert_eq!(numa("plain"), ["-1"; 8]);
}

#[test]
fn what_the_ecosystem_reads_is_there() {
    let (dir, root) = (fresh(), fresh());
    let store = Store::create(dir.path(), a_mixed_node()).unwrap();
    store.keep_files(root.path()).unwrap();
    let all = listing(root.path());
    // mig-parted looks for the module's name at the beginning of a line.
    assert!(all["proc/modules"].lines().any(|line| line.starts_with("nvidia ")));
    assert!(all["proc/driver/nvidia/version"].contains("Kernel Module  580."));
    assert!(all["proc/driver/nvidia/gpus/0000:01:00.0/information"].contains("Device Minor: \t 0\n"));
    assert_eq!(
        all["proc/driver/nvidia/capabilities/mig/config"],
        "DeviceFileMinor: 1\nDeviceFileMode: 256\nDeviceFileModify: 1\n"
    );
    assert!(all["proc/driver/nvidia/capabilities/mig/monitor"].contains("Minor: 2\nDeviceFileMode: 292\n"));
    assert!(all["proc/driver/nvidia-caps/mig-minors"].contains("\ngpu0/gi13/ci0/access 121\n"));
    let of = |address: &str, name: &str| {
        fs::read_to_string(root.path().join("sys/bus/pci/devices").join(address).join(name)).unwrap()
    };
    assert_eq!(of("0000:01:00.0", "vendor"), "0x10de\n");
    assert_eq!(of("0000:01:00.0", "subsystem_vendor"), "0x0000\n");
    assert_eq!(of("0000:01:00.0", "class"), "0x030200\n");
    assert_eq!(of("0000:02:00.0", "class"), "0x030000\n");
    assert_eq!(of("0000:01:00.0", "resource").lines().count(), 13);
    let driver = root.path().join("sys/bus/pci/devices/0000:01:00.0/driver").canonicalize().unwrap();
    assert!(driver.ends_with("sys/bus/pci/drivers/nvidia"));
    assert_eq!(
        below(&all, "dev/"),
        [
            "nvidia-caps/nvidia-cap1",
            "nvidia-caps/nvidia-cap2",
            "nvidia-modeset",
            "nvidia-uvm",
            "nvidia-uvm-tools",
            "nvidia0",
            "nvidia1",
            "nvidiactl"
        ]
    );
    assert!(all.contains_key("proc/driver/nvidia/capabilities/gpu0/mig"));
    assert!(!all.contains_key("proc/driver/nvidia/capabilities/gpu1"), "a display card has no MIG");
}

#[test]
fn a_device_is_a_folder_under_its_root_complex_to_which_the_bus_has_a_link() {
    let machine = Machine::new("dgx", DriverBranch::default(), "2026-11-20T09:00:00Z".parse().unwrap())
        .built_as(Topology::find("pcie-switches").unwrap());
    let model = Model::find("A100-80GB").unwrap();
    let machine = (0..8).fold(machine, |machine, _| machine.with_gpu(&model));
    let (dir, root) = (fresh(), fresh());
    let store = Store::create(dir.path(), State::new(machine)).unwrap();
    store.keep_files(root.path()).unwrap();
    let all = listing(root.path());
    // What NVIDIA's DRA driver takes the root complex from, and hwloc the switches.
    assert_eq!(
        all["sys/bus/pci/devices/0000:1b:00.0"],
        "link to ../../../devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0/0000:19:01.0/0000:1b:00.0"
    );
    // Every link leads somewhere, and each device is what its name says.
    let mut cards = 0;
    for entry in fs::read_dir(root.path().join("sys/bus/pci/devices")).unwrap() {
        let (at, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        let uevent = fs::read_to_string(at.join("uevent")).unwrap();
        assert!(uevent.ends_with(&format!("PCI_SLOT_NAME={}\n", name.to_str().unwrap())), "{uevent}");
        let driver = fs::read_link(at.join("driver")).unwrap();
        let back = at.join("driver").join(&name).canonicalize().unwrap();
        assert_eq!(back, at.canonicalize().unwrap(), "{driver:?}");
        assert!(at.join("subsystem").canonicalize().unwrap().ends_with("sys/bus/pci"));
        cards += usize::from(fs::read_to_string(at.join("vendor")).unwrap() == "0x10de\n");
    }
    assert_eq!(cards, 8);
    let near = |bus: &str| {
        fs::read_to_string(root.path().join("sys/bus/pci/devices").join(bus).join("local_cpulist"))
    };
    assert_eq!(near("0000:8a:00.0").unwrap(), "32-63,96-127\n");
}

#[test]
fn a_folder_of_an_older_program_where_a_link_is_now_gives_way() {
    let (dir, root) = (fresh(), fresh());
    let store = Store::create(dir.path(), a_mixed_node()).unwrap();
    store.keep_files(root.path()).unwrap();
    let at = root.path().join("sys/bus/pci/devices/0000:01:00.0");
    fs::remove_file(&at).unwrap();
    fs::create_dir(&at).unwrap();
    fs::write(at.join("vendor"), "0x10de\n").unwrap();
    // As the older program's manifest has them.
    let manifest = root.path().join(".slicewright-sim-files");
    let text = fs::read_to_string(&manifest).unwrap();
    let lines = text.lines().map(|line| match line.split_once(' ') {
        Some((_, path)) if path == "sys/bus/pci/devices/0000:01:00.0" => {
            format!("{:016x} {path}\n{:016x} {path}/vendor\n", 1, 7)
        }
        _ => format!("{line}\n"),
    });
    fs::write(&manifest, lines.collect::<String>()).unwrap();
    store.keep_files(root.path()).unwrap();
    assert!(fs::symlink_metadata(&at).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(at.join("vendor")).unwrap(), "0x10de\n");
}

#[test]
fn instances_come_and_go_in_the_files_whoever_makes_them() {
    let (dir, root) = (fresh(), fresh());
    let store = Store::create(dir.path(), a_mixed_node()).unwrap();
    store.keep_files(root.path()).unwrap();
    let empty = listing(root.path());
    let other = Store::open(dir.path()).unwrap();
    other.update(|state| mig_on(state, 0)).unwrap();
    let (gi, ci) = other
        .update(|state| {
            let gi = create(state, 0, 19).unwrap();
            let mut nvml = state.machine.nvml(Caller::Root);
            (gi, nvml.create_compute_instance(gi, 0).unwrap())
        })
        .unwrap();
    let cut = listing(root.path());
    let capabilities = "proc/driver/nvidia/capabilities/gpu0/mig/";
    assert_eq!(below(&cut, capabilities), ["gi13/access", "gi13/ci0/access"]);
    assert!(cut[&format!("{capabilities}gi13/access")].starts_with("DeviceFileMinor: 120\n"));
    assert!(
        cut.contains_key("dev/nvidia-caps/nvidia-cap120")
            && cut.contains_key("dev/nvidia-caps/nvidia-cap121")
    );
    assert_eq!(store.files_are_current().unwrap(), Some(true));
    store
        .update(|state| {
            let mut nvml = state.machine.nvml(Caller::Root);
            nvml.destroy_compute_instance(ci).unwrap();
            nvml.destroy_gpu_instance(gi).unwrap();
        })
        .unwrap();
    assert_eq!(listing(root.path()), empty);
    // A new node in the same directory has the same root.
    Store::create(dir.path(), State::new(crate::support::a100s(3))).unwrap();
    assert!(listing(root.path()).contains_key("dev/nvidia2"));
    store.drop_files().unwrap();
    assert!(listing(root.path()).is_empty(), "{:?}", listing(root.path()));
}

#[test]
fn nothing_of_somebody_else_is_touched() {
    let (dir, root) = (fresh(), fresh());
    let store = Store::create(dir.path(), a_mixed_node()).unwrap();
    let real = store.keep_files("/".as_ref()).expect_err("those are the real machine's").to_string();
    assert!(real.contains("name another folder"), "{real}");
    fs::create_dir(root.path().join("proc")).unwrap();
    fs::write(root.path().join("proc/modules"), "theirs").unwrap();
    let error = store.keep_files(root.path()).expect_err("something is in the way").to_string();
    assert!(error.contains("`proc/modules`, which is not ours: name an empty folder"), "{error}");
    assert_eq!(listing(root.path()).len(), 2);
    assert_eq!(store.files_are_current().unwrap(), None);

    // What others put beside ours later stays, too.
    fs::remove_file(root.path().join("proc/modules")).unwrap();
    store.keep_files(root.path()).unwrap();
    fs::write(root.path().join("dev/null"), "theirs").unwrap();
    store.drop_files().unwrap();
    let left: Vec<_> = listing(root.path()).into_keys().collect();
    assert_eq!(left, ["dev", "dev/null", "proc"]);
}

#[test]
fn a_root_that_is_out_of_sight_holds_nobody_up_and_is_caught_up_with() {
    let (dir, root) = (fresh(), fresh());
    let (here, away) = (root.path().join("here"), root.path().join("away"));
    let store = Store::create(dir.path(), a_mixed_node()).unwrap();
    store.keep_files(&here).unwrap();
    fs::rename(&here, &away).unwrap();
    store.update(|state| mig_on(state, 0)).unwrap();
    store.update(|state| create(state, 0, 19).unwrap()).unwrap();
    assert_eq!(store.files_are_current().unwrap(), None);
    assert!(!here.exists(), "nothing is made where there was nothing of ours");
    fs::rename(&away, &here).unwrap();
    assert_eq!(store.files_are_current().unwrap(), Some(false));
    store.update(|_| ()).unwrap();
    assert_eq!(store.files_are_current().unwrap(), Some(true));
    assert!(here.join("dev/nvidia-caps/nvidia-cap120").exists());
}

#[test]
fn what_an_older_program_did_not_lay_out_is_there_once_one_asks_for_the_files() {
    let (dir, root) = (fresh(), fresh());
    let store = Store::create(dir.path(), a_mixed_node()).unwrap();
    store.keep_files(root.path()).unwrap();
    let all = listing(root.path());
    // As a program leaves it that does not know of one of the files; the node is as it was.
    let newer = root.path().join("proc/driver/nvidia/version");
    fs::remove_file(&newer).unwrap();
    let manifest = root.path().join(".slicewright-sim-files");
    let text = fs::read_to_string(&manifest).unwrap();
    let older: Vec<_> = text.lines().filter(|line| !line.ends_with("nvidia/version")).collect();
    fs::write(&manifest, older.join("\n") + "\n").unwrap();
    store.keep_files(root.path()).unwrap();
    assert_eq!(listing(root.path()), all);
}

#[test]
fn device_files_are_devices_where_that_is_possible() {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let (dir, root) = (fresh(), fresh());
    let store = Store::create(dir.path(), a_mixed_node()).unwrap();
    store
        .update(|state| state.machine.nvml(Caller::Root).device_handle_by_index(0).map(|_| Mode::Enabled))
        .unwrap()
        .unwrap();
    store.keep_files(root.path()).unwrap();
    let metadata = fs::metadata(root.path().join("dev/nvidia1")).unwrap();
    if metadata.file_type().is_char_device() {
        assert_eq!(metadata.rdev(), rustix::fs::makedev(store::NVIDIA_MAJOR, 1));
    } else {
        assert!(metadata.is_file(), "a plain file where devices cannot be made");
    }
    assert_eq!(metadata.mode() & 0o777, 0o666);
}
