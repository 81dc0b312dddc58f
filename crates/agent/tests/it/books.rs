//! The two books, side by side.

use std::collections::BTreeSet;

use agent::books::{Blocker, LONGEST_TEXT, MOST_CONTAINERS, MOST_DEVICES, renamed};
use agent::{Books, Device, DeviceId, Listed, NodeLayout, PodUid, Recorded};
use proptest::prelude::*;

use crate::scene::{device, gpu, layout, listed, name, recorded};

fn books(listed: &[Listed], recorded: &[Recorded]) -> Books {
    Books::join(Ok(listed), Ok(recorded))
}

fn blocker(books: &Books, there: &NodeLayout, place: &str) -> Option<Blocker> {
    books.blocker(&name(place), there, &BTreeSet::new())
}

#[test]
fn a_slice_is_held_if_either_book_says_so() {
    let there = layout("1g@0 1g@1 1g@2");
    let books = books(&[listed("nb", "1g@0")], &[recorded("u1", "init", "1g@1")]);
    assert!(matches!(blocker(&books, &there, "1g@0"), Some(Blocker::Held { .. })));
    assert!(matches!(blocker(&books, &there, "1g@1"), Some(Blocker::Held { .. })));
    assert_eq!(blocker(&books, &there, "1g@2"), None);
}

#[test]
fn a_share_of_a_slice_holds_all_of_it() {
    let mut shared = listed("nb", "1g@0");
    shared.devices[0].id.0.push_str("::3");
    let books = books(&[shared], &[]);
    assert!(matches!(blocker(&books, &layout("1g@0"), "1g@0"), Some(Blocker::Held { .. })));
}

#[test]
fn who_has_the_gpu_has_its_slices() {
    let whole = Device { resource: "nvidia.com/gpu".to_owned(), id: DeviceId(gpu().0) };
    let books = books(&[Listed { devices: vec![whole], ..listed("nb", "") }], &[]);
    assert!(matches!(blocker(&books, &layout("1g@0"), "1g@0"), Some(Blocker::Held { .. })));
}

#[test]
fn a_process_that_no_book_explains_blocks() {
    let mut there = layout("1g@0");
    let agent::GpuState::Cut(slices) = &mut there.gpus[0].state else { panic!() };
    slices[0].busy = true;
    assert_eq!(blocker(&books(&[], &[]), &there, "1g@0"), Some(Blocker::Busy));
}

#[test]
fn a_device_that_no_layout_knows_is_named_and_blocks_every_slice() {
    let there = layout("1g@0");
    let books = books(&[listed("nb", "1g@5")], &[]);
    assert!(matches!(blocker(&books, &there, "1g@0"), Some(Blocker::Stranger { .. })));
    assert_eq!(books.strangers(&there).map(|(id, _)| id.0.as_str()).collect::<Vec<_>>(), ["MIG-1g@5"]);
}

fn offered(resource: &str, id: &str) -> Device {
    Device { resource: resource.to_owned(), id: DeviceId(id.to_owned()) }
}

#[track_caller]
fn check_names(there: &[Device], said: Option<&str>) {
    let found = renamed(there, &layout("1g@0 3g@4"));
    let expected = said.map(|what| {
        format!("the device plugin offers {what}, so nobody can say which pods may be given one: take `resources` out of the plugin's configuration")
    });
    assert_eq!(found, expected);
}

/// Who asks by another name may be about to get a slice of any profile, and the proof would not wait for them.
#[test]
fn a_slice_that_is_offered_under_another_name_than_its_own_is_noticed() {
    check_names(&[device("1g@0"), device("3g@4")], None);
    check_names(&[offered("nvidia.com/small", "MIG-1g@0")], Some("slices 1g.10gb as nvidia.com/small"));
    check_names(
        &[device("1g@0"), offered("nvidia.com/mig-large", "MIG-3g@4")],
        Some("slices 3g.40gb as nvidia.com/mig-large"),
    );
    let other = "nvidia.com/mig-1g.10gb";
    check_names(&[offered(other, "MIG-3g@4")], Some("slices 3g.40gb as nvidia.com/mig-1g.10gb"));
    check_names(&[offered("nvidia.com/a100", &gpu().0)], Some("a GPU as nvidia.com/a100"));
    check_names(&[offered("nvidia.com/small", "MIG-elsewhere")], Some("a GPU as nvidia.com/small"));
    // Shares, slices under strategy `single`, slices of a GPU about which nothing is known, and what is no GPU at all.
    check_names(&[offered("nvidia.com/mig-1g.10gb.shared", "MIG-1g@0::1")], None);
    check_names(&[offered("nvidia.com/gpu", "MIG-1g@0"), offered("nvidia.com/gpu", &gpu().0)], None);
    check_names(&[offered("nvidia.com/mig-9x.odd", "MIG-elsewhere")], None);
    check_names(&[offered("nvidia.com/hostdev", "0000:3b:00.1")], None);
}

#[test]
fn a_pod_that_is_gone_blocks_no_longer_and_one_that_kubelet_lists_does() {
    let there = layout("1g@0");
    let gone = BTreeSet::from([PodUid("u1".to_owned())]);
    let record = [recorded("u1", "main", "1g@0"), recorded("u1", "main", "1g@5")];
    assert_eq!(books(&[], &record).blocker(&name("1g@0"), &there, &gone), None);
    let both = books(&[listed("nb", "1g@0")], &record);
    assert!(matches!(both.blocker(&name("1g@0"), &there, &gone), Some(Blocker::Held { .. })));
}

#[test]
fn two_pods_of_one_device_are_told_and_both_hold_it() {
    let there = layout("1g@0 1g@1");
    let twice = |books: &Books| books.twice().iter().map(|id| id.0.clone()).collect::<Vec<_>>();
    let by_name = books(&[listed("nb", "1g@0"), listed("other", "1g@0")], &[]);
    assert_eq!(twice(&by_name), ["MIG-1g@0"]);
    let by_uid = books(&[], &[recorded("u1", "main", "1g@1"), recorded("u2", "main", "1g@1")]);
    assert_eq!(twice(&by_uid), ["MIG-1g@1"]);
    assert_eq!(by_uid.who_holds(&gpu(), &there.gpus[0].slices()[1]).count(), 2);
    // One pod in both books, and an init container's device that another container takes over.
    let one =
        books(&[listed("nb", "1g@0")], &[recorded("u1", "init", "1g@0"), recorded("u1", "main", "1g@0")]);
    assert_eq!(twice(&one), Vec::<String>::new());
}

#[test]
fn devices_of_others_are_none_of_our_business() {
    let card = Device { resource: "nvidia.com/hostdev".to_owned(), id: DeviceId("0000:3b:00.1".to_owned()) };
    let books = books(&[Listed { devices: vec![card], ..listed("nb", "") }], &[]);
    assert_eq!(books.devices().count(), 0);
}

#[test]
fn a_book_that_cannot_be_read_blocks_everything() {
    let there = layout("1g@0");
    for books in [
        Books::join(Err("connection refused".to_owned()), Ok(&[])),
        Books::join(Ok(&[]), Err("the checksum is wrong".to_owned())),
        Books::join(Ok(&vec![listed("nb", ""); MOST_CONTAINERS + 1]), Ok(&[])),
        Books::join(
            Ok(&[]),
            Ok(&[Recorded { container: "x".repeat(LONGEST_TEXT + 1), ..recorded("u", "c", "") }]),
        ),
        Books::join(
            Ok(&[Listed { devices: vec![device("1g@5"); MOST_DEVICES + 1], ..listed("nb", "") }]),
            Ok(&[]),
        ),
    ] {
        assert!(matches!(blocker(&books, &there, "1g@0"), Some(Blocker::Unreadable { .. })), "{books:?}");
    }
}

fn any_device() -> impl Strategy<Value = Device> {
    let resource =
        prop_oneof![Just("nvidia.com/gpu".to_owned()), Just("nvidia.com/mig-1g.10gb".to_owned()), ".{0,12}"];
    let id = prop_oneof![Just("MIG-1g@0".to_owned()), Just("GPU-a".to_owned()), "(MIG-|GPU-|::|.){0,4}"];
    (resource, id).prop_map(|(resource, id)| Device { resource, id: DeviceId(id) })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, rng_seed: proptest::test_runner::RngSeed::Fixed(24), failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the books say, nobody's device is overlooked: each is a slice's, a GPU's, or named as a stranger.
    #[test]
    fn no_device_is_dropped(
        list in proptest::collection::vec((".{0,4}", proptest::collection::vec(any_device(), 0..5)), 0..8),
        record in proptest::collection::vec((".{0,4}", proptest::collection::vec(any_device(), 0..5)), 0..8),
    ) {
        let there = layout("1g@0 3g@4");
        let list: Vec<_> = list.into_iter().map(|(pod, devices)| Listed { devices, ..listed(&pod, "") }).collect();
        let record: Vec<_> =
            record.into_iter().map(|(uid, devices)| Recorded { devices, ..recorded(&uid, "c", "") }).collect();
        let books = books(&list, &record);
        let told: BTreeSet<_> = books.devices().map(|(id, _)| id.clone()).collect();
        let all = list.iter().flat_map(|l| &l.devices).chain(record.iter().flat_map(|r| &r.devices));
        for device in all.filter(|device| device.is_gpu()) {
            prop_assert!(told.contains(&device.id.unshared()));
            let known = there.knows(&device.id.unshared());
            prop_assert!(known || books.strangers(&there).any(|(id, _)| *id == device.id.unshared()));
            if !known {
                prop_assert!(blocker(&books, &there, "3g@4").is_some());
            }
        }
    }
}
