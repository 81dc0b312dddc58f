//! Stories in which a call of the driver fails before its work, fails after it (the answer is lost), or
//! reports success without doing anything. The result of the first attempt is always true; the second
//! attempt converges.

use super::Call::{CreateCompute, CreateInstance, DestroyCompute, DestroyInstance, Query, SetMode};
use super::How::{After, Before, Lies};
use super::{A100, Call, How, Others, create, layout, names, ok, place, refused, uuid, with_mig};
use crate::code::Code;
use crate::port::{Created, Destroyed, GpuUuid, Gpus, Mode, ModeSet, PortError};

/// What a table's row expects of the first attempt.
#[derive(Debug)]
enum First {
    /// It says that it worked, and it did.
    Works,
    /// It fails with this code of the driver's.
    Fails(Code),
    /// It says that the driver lied.
    NoEffect,
}

#[track_caller]
fn is_as_expected<T: std::fmt::Debug>(answer: &Result<T, PortError>, expected: &First, row: &str) {
    let good = match (answer, expected) {
        (Ok(_), First::Works) => true,
        (Err(PortError::NoEffect { .. }), First::NoEffect) => true,
        (Err(error), First::Fails(code)) => error.code() == Some(*code),
        _ => false,
    };
    assert!(good, "{row}: {expected:?} was expected: {answer:?}");
}

pub(super) fn a_creation_that_fails_anywhere_converges(gpus: &mut dyn Gpus, others: &dyn Others) {
    let gpu = with_mig(gpus, A100);
    create(gpus, &gpu, "3g.40gb@4");
    let (there, wanted) = (place("3g.40gb@4"), place("2g.20gb@0"));
    let table: [(Call, How, First); 8] = [
        (CreateInstance, Before(Code::InUse), First::Fails(Code::InUse)),
        (CreateInstance, Before(Code::NotReady), First::Fails(Code::NotReady)),
        // The instance was made, and nobody was told its handle: it is taken back.
        (CreateInstance, After(Code::Timeout), First::Fails(Code::Timeout)),
        (CreateInstance, Lies, First::NoEffect),
        (CreateCompute, Before(Code::InsufficientResources), First::Fails(Code::InsufficientResources)),
        // All is done but for the answer: what is there counts.
        (CreateCompute, After(Code::Unknown), First::Works),
        (CreateCompute, Lies, First::NoEffect),
        (CreateInstance, Before(Code::NoPermission), First::Fails(Code::NoPermission)),
    ];
    for (call, how, expected) in table {
        let row = format!("{call:?} {how:?}");
        others.misbehaves(call, how);
        let answer = gpus.create(&gpu, &wanted);
        is_as_expected(&answer, &expected, &row);
        let whole = vec![wanted.to_string(), there.to_string()];
        let left = if answer.is_ok() { whole.clone() } else { vec![there.to_string()] };
        assert_eq!(layout(gpus, &gpu), left, "{row}: a failed call leaves nothing");

        let again = ok(gpus.create(&gpu, &wanted));
        let first_worked = matches!(expected, First::Works);
        assert_eq!(matches!(again, Created::AlreadyThere(_)), first_worked, "{row}: {again:?}");
        assert_eq!(layout(gpus, &gpu), whole, "{row}");
        assert_eq!(ok(gpus.destroy(&gpu, &wanted)), Destroyed::Gone, "{row}");
    }
    a_slice_in_part_is_completed(gpus, others, &gpu);
}

/// Where taking back fails too, the error says what is left, and the next call
/// completes it.
fn a_slice_in_part_is_completed(gpus: &mut dyn Gpus, others: &dyn Others, gpu: &GpuUuid) {
    let wanted = place("2g.20gb@0");
    others.misbehaves(CreateCompute, Before(Code::Memory));
    others.misbehaves(DestroyInstance, Before(Code::Unknown));
    let error = refused(gpus.create(gpu, &wanted));
    assert!(matches!(error, PortError::Incomplete { .. }), "{error:?}");
    assert_eq!(error.code(), Some(Code::Memory));
    assert_eq!(layout(gpus, gpu), ["2g.20gb@0!", "3g.40gb@4"]);

    // Completing may fail as well; what was there before stays.
    others.misbehaves(CreateCompute, Before(Code::Memory));
    let error = refused(gpus.create(gpu, &wanted));
    assert!(matches!(error, PortError::Incomplete { .. }), "{error:?}");
    assert_eq!(layout(gpus, gpu), ["2g.20gb@0!", "3g.40gb@4"]);

    let completed = ok(gpus.create(gpu, &wanted));
    assert!(matches!(completed, Created::Completed(_)), "{completed:?}");
    assert_eq!(layout(gpus, gpu), ["2g.20gb@0", "3g.40gb@4"]);
}

pub(super) fn a_destruction_that_fails_anywhere_converges(gpus: &mut dyn Gpus, others: &dyn Others) {
    let gpu = with_mig(gpus, A100);
    create(gpus, &gpu, "3g.40gb@4");
    let (stays, goes) = (place("3g.40gb@4"), place("1g.10gb@2"));
    let table: [(Call, How, First, &str); 6] = [
        (DestroyCompute, Before(Code::Unknown), First::Fails(Code::Unknown), "1g.10gb@2"),
        (DestroyCompute, After(Code::Timeout), First::Works, ""),
        (DestroyCompute, Lies, First::NoEffect, "1g.10gb@2"),
        // Nothing can be opened of it any more, and it is told so.
        (DestroyInstance, Before(Code::Unknown), First::Fails(Code::Unknown), "1g.10gb@2!"),
        (DestroyInstance, After(Code::Timeout), First::Works, ""),
        (DestroyInstance, Lies, First::NoEffect, "1g.10gb@2!"),
    ];
    for (call, how, expected, left) in table {
        let row = format!("{call:?} {how:?}");
        create(gpus, &gpu, "1g.10gb@2");
        others.misbehaves(call, how);
        let answer = gpus.destroy(&gpu, &goes);
        is_as_expected(&answer, &expected, &row);
        let after = names(&ok(gpus.layout(&gpu)));
        let expect: Vec<_> =
            [left, "3g.40gb@4"].into_iter().filter(|n| !n.is_empty()).map(str::to_owned).collect();
        assert_eq!(after, expect, "{row}");

        let again = ok(gpus.destroy(&gpu, &goes));
        let first_worked = matches!(expected, First::Works);
        assert_eq!(again == Destroyed::AlreadyGone, first_worked, "{row}: {again:?}");
        assert_eq!(layout(gpus, &gpu), [stays.to_string()], "{row}");
    }
}

pub(super) fn a_change_of_mode_that_fails_converges(gpus: &mut dyn Gpus, others: &dyn Others) {
    let gpu = uuid(gpus, A100);
    let table = [
        (Before(Code::NoPermission), First::Fails(Code::NoPermission)),
        (After(Code::Timeout), First::Works),
        (Lies, First::NoEffect),
    ];
    for (how, expected) in table {
        let row = format!("{how:?}");
        others.misbehaves(SetMode, how);
        let answer = gpus.set_mode(&gpu, Mode::Enabled);
        is_as_expected(&answer, &expected, &row);
        let then = if answer.is_ok() { ModeSet::AlreadySo } else { ModeSet::Changed };
        assert_eq!(ok(gpus.set_mode(&gpu, Mode::Enabled)), then, "{row}");
        assert_eq!(ok(gpus.set_mode(&gpu, Mode::Disabled)), ModeSet::Changed, "{row}");
    }
}

pub(super) fn a_driver_that_cannot_be_read_changes_nothing(gpus: &mut dyn Gpus, others: &dyn Others) {
    let gpu = with_mig(gpus, A100);
    create(gpus, &gpu, "3g.40gb@4");
    others.misbehaves(Query, Before(Code::Unknown));
    let error = refused(gpus.create(&gpu, &place("1g.10gb@0")));
    assert_eq!(error.code(), Some(Code::Unknown), "{error:?}");
    assert_eq!(layout(gpus, &gpu), ["3g.40gb@4"]);
    others.misbehaves(Query, Before(Code::Unknown));
    let error = refused(gpus.destroy(&gpu, &place("3g.40gb@4")));
    assert_eq!(error.code(), Some(Code::Unknown), "{error:?}");
    assert_eq!(layout(gpus, &gpu), ["3g.40gb@4"]);
    assert_eq!(ok(gpus.destroy(&gpu, &place("3g.40gb@4"))), Destroyed::Gone);
    assert!(matches!(create(gpus, &gpu, "1g.10gb@0"), Created::New(_)));
}
