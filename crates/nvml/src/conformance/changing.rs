//! Stories without failures of the driver.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{A100, H100, Others, T4, create, layout, names, ok, place, refused, uuid, with_mig};
use crate::code::Code;
use crate::port::{Created, Destroyed, GpuUuid, Gpus, Happened, MigMode, Mode, ModeSet, PortError};

pub(super) fn a_mode_is_switched_once(gpus: &mut dyn Gpus, _: &dyn Others) {
    let mode = |mode| Some(MigMode { current: mode, pending: mode });
    for index in [A100, H100] {
        let gpu = uuid(gpus, index);
        let now = |gpus: &mut dyn Gpus| {
            ok(gpus.enumerate()).gpus.into_iter().find(|g| g.index == index).and_then(|g| g.mode)
        };
        assert_eq!(now(gpus), mode(Mode::Disabled));
        assert_eq!(ok(gpus.set_mode(&gpu, Mode::Disabled)), ModeSet::AlreadySo);
        assert_eq!(ok(gpus.set_mode(&gpu, Mode::Enabled)), ModeSet::Changed);
        assert_eq!(now(gpus), mode(Mode::Enabled));
        assert_eq!(ok(gpus.set_mode(&gpu, Mode::Enabled)), ModeSet::AlreadySo);
        assert_eq!(ok(gpus.layout(&gpu)).slices, []);
        assert_eq!(ok(gpus.set_mode(&gpu, Mode::Disabled)), ModeSet::Changed);
        assert_eq!(now(gpus), mode(Mode::Disabled));
    }
}

pub(super) fn a_gpu_without_mig_is_told(gpus: &mut dyn Gpus, _: &dyn Others) {
    let gpu = uuid(gpus, T4);
    let found = ok(gpus.enumerate());
    assert_eq!(found.gpus.iter().find(|g| g.uuid == gpu).map(|g| g.mode), Some(None));
    assert_eq!(ok(gpus.profiles(&gpu)), []);
    assert_eq!(ok(gpus.layout(&gpu)).slices, []);
    assert_eq!(refused(gpus.set_mode(&gpu, Mode::Enabled)), PortError::NoMig { gpu: gpu.clone() });
    assert_eq!(refused(gpus.create(&gpu, &place("1g.10gb@0"))), PortError::NoMig { gpu: gpu.clone() });
    assert_eq!(ok(gpus.destroy(&gpu, &place("1g.10gb@0"))), Destroyed::AlreadyGone);
}

pub(super) fn slices_are_where_they_were_asked_for(gpus: &mut dyn Gpus, _: &dyn Others) {
    let gpu = with_mig(gpus, A100);
    // The first would go to 6 if the driver chose, and none of the others to where they are.
    let wanted = ["1g.10gb@3", "3g.40gb@4", "1g.10gb@0", "1g.10gb+me@1"];
    let mut seen = BTreeSet::new();
    for at in wanted {
        let created = create(gpus, &gpu, at);
        assert!(matches!(created, Created::New(_)), "{created:?}");
        let slice = created.slice();
        assert_eq!(slice.place(), Some(place(at)));
        assert!(slice.is_whole(), "{slice:?}");
        assert!(seen.insert(slice.devices[0].uuid.clone()), "a UUID that another slice has: {slice:?}");
    }
    assert_eq!(layout(gpus, &gpu), ["1g.10gb@0", "1g.10gb+me@1", "1g.10gb@3", "3g.40gb@4"]);

    let again = create(gpus, &gpu, "3g.40gb@4");
    assert!(matches!(again, Created::AlreadyThere(_)), "{again:?}");
    assert_eq!(ok(gpus.destroy(&gpu, &place("1g.10gb@0"))), Destroyed::Gone);
    assert_eq!(ok(gpus.destroy(&gpu, &place("1g.10gb@0"))), Destroyed::AlreadyGone);
    assert_eq!(layout(gpus, &gpu), ["1g.10gb+me@1", "1g.10gb@3", "3g.40gb@4"]);
    // Another profile at the same start is another place.
    assert_eq!(ok(gpus.destroy(&gpu, &place("4g.40gb@0"))), Destroyed::AlreadyGone);
}

pub(super) fn every_place_of_every_profile_can_be_had(gpus: &mut dyn Gpus, _: &dyn Others) {
    for index in [A100, H100] {
        let gpu = with_mig(gpus, index);
        let profiles = ok(gpus.profiles(&gpu));
        assert!(profiles.len() >= 6, "{profiles:?}");
        for profile in &profiles {
            for span in &profile.places {
                let at = format!("{}@{}", profile.name, span.start);
                let created = create(gpus, &gpu, &at);
                assert_eq!(created.slice().span, Some(*span), "{at}");
                assert_eq!(layout(gpus, &gpu), [at.as_str()]);
                assert_eq!(ok(gpus.destroy(&gpu, &place(&at))), Destroyed::Gone);
            }
        }
        assert_eq!(layout(gpus, &gpu), [""; 0]);
    }
}

pub(super) fn what_cannot_be_is_refused_by_name(gpus: &mut dyn Gpus, _: &dyn Others) {
    let gpu = uuid(gpus, A100);
    let off = refused(gpus.create(&gpu, &place("1g.10gb@0")));
    assert_eq!(off, PortError::MigIsOff { gpu: gpu.clone() });

    with_mig(gpus, A100);
    create(gpus, &gpu, "3g.40gb@4");
    let there = place("2g.20gb@4");
    let by = place("3g.40gb@4");
    let occupied = refused(gpus.create(&gpu, &there));
    assert_eq!(occupied, PortError::Occupied { gpu: gpu.clone(), place: there, by });

    let off_grid = place("2g.20gb@1");
    let starts = vec![0, 2, 4];
    let no_place = refused(gpus.create(&gpu, &off_grid));
    assert_eq!(no_place, PortError::NoSuchPlace { gpu: gpu.clone(), place: off_grid, starts });

    let unknown = refused(gpus.create(&gpu, &place("1g.5gb@0")));
    let PortError::NoSuchProfile { gpu: _, profile, known } = unknown else { panic!("{unknown:?}") };
    assert_eq!(profile, "1g.5gb");
    assert!(known.contains(&"1g.10gb".to_owned()), "{known:?}");

    // What the driver alone knows: the media engines are given already.
    create(gpus, &gpu, "1g.10gb+me@0");
    let no_room = refused(gpus.create(&gpu, &place("1g.10gb+me@1")));
    assert_eq!(no_room.code(), Some(Code::InsufficientResources), "{no_room:?}");

    let nobody = GpuUuid("GPU-nobody".to_owned());
    let PortError::NoSuchGpu { gpu: asked, known } = refused(gpus.layout(&nobody)) else {
        panic!("a GPU that is not there")
    };
    assert_eq!((asked, known.len()), (nobody, 3));
    // A part of a GPU is none.
    let part = GpuUuid(ok(gpus.layout(&gpu)).slices[0].devices[0].uuid.clone());
    let no_gpu = refused(gpus.layout(&part));
    assert!(matches!(no_gpu, PortError::NoSuchGpu { .. }), "{no_gpu:?}");
    assert_eq!(layout(gpus, &gpu), ["1g.10gb+me@0", "3g.40gb@4"]);
}

pub(super) fn a_slice_in_use_stays(gpus: &mut dyn Gpus, others: &dyn Others) {
    let gpu = with_mig(gpus, A100);
    let busy = place("2g.20gb@2");
    for at in ["1g.10gb@0", "2g.20gb@2", "3g.40gb@4"] {
        create(gpus, &gpu, at);
    }
    let opened = others.opens(A100, Some(&busy));
    let before = ok(gpus.layout(&gpu));
    let slice = before.at(&busy).expect("it is there");
    let pids: Vec<_> = before.on(slice).map(|process| process.pid).collect();
    assert_eq!(pids, [opened.pid]);

    // The neighbours come and go.
    assert_eq!(ok(gpus.destroy(&gpu, &place("1g.10gb@0"))), Destroyed::Gone);
    assert_eq!(ok(gpus.destroy(&gpu, &place("3g.40gb@4"))), Destroyed::Gone);
    create(gpus, &gpu, "2g.20gb@4");
    create(gpus, &gpu, "1g.10gb@6");

    let in_use = refused(gpus.destroy(&gpu, &busy));
    let PortError::InUse { gpu: _, place: at, processes } = &in_use else { panic!("{in_use:?}") };
    assert_eq!((at, processes.iter().map(|p| p.pid).collect::<Vec<_>>()), (&busy, vec![opened.pid]));
    let after = ok(gpus.layout(&gpu));
    assert_eq!(after.at(&busy), Some(slice), "untouched, with the UUID that the process has open");

    others.closes(opened);
    assert_eq!(ok(gpus.destroy(&gpu, &busy)), Destroyed::Gone);
    assert_eq!(names(&ok(gpus.layout(&gpu))), ["2g.20gb@4", "1g.10gb@6"]);
}

pub(super) fn a_mode_waits_while_the_gpu_is_busy(gpus: &mut dyn Gpus, others: &dyn Others) {
    let gpu = uuid(gpus, A100);
    let opened = others.opens(A100, None);
    let waits = ModeSet::Pending { why: Code::InUse };
    assert_eq!(ok(gpus.set_mode(&gpu, Mode::Enabled)), waits);
    let found = ok(gpus.enumerate());
    let mode = found.gpus.iter().find(|g| g.uuid == gpu).and_then(|g| g.mode);
    assert_eq!(mode, Some(MigMode { current: Mode::Disabled, pending: Mode::Enabled }));
    assert_eq!(ok(gpus.set_mode(&gpu, Mode::Enabled)), waits, "asked for again, it still waits");
    others.closes(opened);
    assert_eq!(ok(gpus.set_mode(&gpu, Mode::Enabled)), ModeSet::Changed);
}

pub(super) fn mig_stays_on_while_there_are_slices(gpus: &mut dyn Gpus, _: &dyn Others) {
    let gpu = with_mig(gpus, A100);
    create(gpus, &gpu, "2g.20gb@0");
    let slices = vec!["2g.20gb@0".to_owned()];
    let refused = refused(gpus.set_mode(&gpu, Mode::Disabled));
    assert_eq!(refused, PortError::HasSlices { gpu: gpu.clone(), slices });
    let mode = ok(gpus.enumerate()).gpus.into_iter().find(|g| g.uuid == gpu).and_then(|g| g.mode);
    assert_eq!(mode, Some(MigMode { current: Mode::Enabled, pending: Mode::Enabled }), "nothing waits");
    assert_eq!(ok(gpus.destroy(&gpu, &place("2g.20gb@0"))), Destroyed::Gone);
    assert_eq!(ok(gpus.set_mode(&gpu, Mode::Disabled)), ModeSet::Changed);
}

pub(super) fn a_divided_slice_is_told(gpus: &mut dyn Gpus, others: &dyn Others) {
    let gpu = with_mig(gpus, A100);
    let divided = place("3g.40gb@0");
    create(gpus, &gpu, "3g.40gb@0");
    others.divides(A100, &divided);
    assert_eq!(layout(gpus, &gpu), ["3g.40gb@0!"]);
    let told = refused(gpus.create(&gpu, &divided));
    assert_eq!(told, PortError::Divided { gpu: gpu.clone(), place: divided.clone(), parts: 2 });
    assert_eq!(ok(gpus.destroy(&gpu, &divided)), Destroyed::Gone);
    assert_eq!(layout(gpus, &gpu), [""; 0]);
}

pub(super) fn a_lost_gpu_hides_no_other(gpus: &mut dyn Gpus, others: &dyn Others) {
    let (lost, lives) = (uuid(gpus, A100), uuid(gpus, H100));
    others.loses(A100);
    let found = ok(gpus.enumerate());
    assert_eq!(found.gpus.iter().map(|gpu| gpu.index).collect::<Vec<_>>(), [T4, H100]);
    let silent: Vec<_> = found.silent.iter().map(|s| (s.index, s.error.code())).collect();
    assert_eq!(silent, [(A100, Some(Code::GpuIsLost))]);
    assert!(gpus.layout(&lost).is_err());
    assert_eq!(ok(gpus.set_mode(&lives, Mode::Enabled)), ModeSet::Changed);
    create(gpus, &lives, "1g.10gb@0");
}

pub(super) fn changes_and_errors_are_events(gpus: &mut dyn Gpus, others: &dyn Others) {
    let gpu = with_mig(gpus, A100);
    let other = uuid(gpus, H100);
    assert_eq!(ok(gpus.events(Duration::ZERO)), [], "what was before the first call is not told");
    create(gpus, &gpu, "1g.10gb@0");
    others.reports_xid(H100, 79);
    let events = ok(gpus.events(Duration::from_secs(5)));
    let told: BTreeSet<_> = events.iter().map(|event| (event.gpu.clone(), event.what)).collect();
    let expect = [(Some(gpu), Happened::Repartitioned), (Some(other), Happened::Xid(79))];
    assert_eq!(told, BTreeSet::from(expect));
    assert_eq!(ok(gpus.events(Duration::ZERO)), [], "each is told once");
}
