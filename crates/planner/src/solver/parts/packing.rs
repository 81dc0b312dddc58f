//! Rules of which a search of some length would hide whether they hold: tests on copies that are packed.

use super::fill::Filling;
use super::model::Model;
use super::order::{InOrder, Orders};
use super::refill;
use super::{Asked, Decided, Part};
use crate::solver::answers::Answers;
use crate::solver::instance::{Class, Column, Effort, Extra, Instance, Row, RowIndex, Sense};
use crate::solver::work::Allowance;

/// What one copy has room for.
const ROOM: i64 = 10;
/// What has to be done begins with this row; the copies' own come before.
const FIRST: RowIndex = 2;

/// Copies that are alike, and things of these sizes to be done once each; whatever is not done costs one.
fn packing(copies: u32, sizes: &[i32]) -> (Instance, Vec<Part>) {
    let all = i64::from(copies);
    let mut rows = vec![Row { sense: Sense::AtLeast, rhs: 0 }, Row { sense: Sense::AtMost, rhs: ROOM * all }];
    let mut extras = Vec::new();
    for (size, row) in sizes.iter().zip(FIRST..) {
        rows.push(Row { sense: Sense::Equal, rhs: 1 });
        let coefficients = vec![(0, -1), (1, *size), (row, 1)];
        extras.push(Extra { upper: all, coefficients, costs: vec![] });
    }
    let extras_of_copy = (0..sizes.len()).collect();
    let parts =
        vec![Part { copies, rows: vec![0, 1], counts: vec![0, 1], classes: vec![0], extras: extras_of_copy }];
    let undone = (FIRST..).take(sizes.len());
    extras.extend(undone.map(|row| Extra { upper: 1, coefficients: vec![(row, 1)], costs: vec![1] }));
    let column = Column { coefficients: vec![(0, 8)], costs: vec![] };
    let classes = vec![Class { count: copies, columns: [column].into() }];
    (Instance { rows, classes, extras, levels: 1 }, parts)
}

/// In the order in which they are given, all of it fits; with what is small first, it does not.
#[test]
fn first_fit_is_a_floor_without_any_search() {
    let sizes = [9, 1, 8, 2, 7, 3];
    let (instance, parts) = packing(3, &sizes);
    let model = Model::new(&instance, &parts, 1);
    let rows: Vec<RowIndex> = (FIRST..).take(sizes.len()).collect();
    let undone = |starts: Vec<Vec<RowIndex>>| {
        let orders = Orders { copies: vec![0; 3], starts, turns: vec![] };
        let filling = Filling::new(&model, &parts, &orders).expect("nothing done is a state");
        filling.parted(&parts).expect("it can be settled").solved.levels[0].value
    };
    assert_eq!(undone(vec![rows]), 0);
    assert!(undone(vec![]) > 0, "other starts are as good, so this says nothing");
}

/// Whoever knows a choice already starts with it, and does not search again for what it reaches. The work is the same
/// whether the answer was kept or not, so that who stops after so much work stops at the same question.
#[test]
fn a_known_choice_is_where_the_search_starts() {
    // Dividing what all copies do together leaves out more than need be, and it takes a search to find that.
    let sizes = [2, 4, 8, 3, 2, 3, 3, 8, 6, 5, 8, 8, 7, 7, 8, 6, 2];
    let (instance, parts) = packing(6, &sizes);
    let orders = Orders::default();
    let mut answers = Answers::default();
    let asked = Asked::new(1, 1, &orders);
    let (first, work) = answers.solve_parts(&instance, &parts, asked, Effort::default());
    let (again, as_much) = answers.solve_parts(&instance, &parts, asked, Effort::default());
    assert_eq!((&again, as_much), (&first, work));
    let first = first.expect("nothing done is a choice");
    let start = Asked { start: &first.copies, ..asked };
    let (next, less) = answers.solve_parts(&instance, &parts, start, Effort::default());
    let next = next.expect("there is one already");
    assert_eq!(next.solved.levels, first.solved.levels);
    assert!(less < work, "{less} operations, and {work} without it");
}

/// First fit fills three copies with 5 2 2, 3 3 3 and 5 2. Then 5 has no room, and with any two of them there is too
/// little for it: only all three, begun again with the largest, have room.
#[test]
fn who_has_no_room_is_served_when_the_others_are_placed_anew() {
    let sizes = [5, 2, 2, 3, 3, 3, 5, 2, 5];
    let (instance, parts) = packing(3, &sizes);
    let model = Model::new(&instance, &parts, 1);
    let rows: Vec<RowIndex> = (FIRST..).take(sizes.len()).collect();
    let (last, before) = rows.split_last().expect("there are some");
    let mut in_order = InOrder::new(&model, refill::nothing(&model), &[0, 0, 0]);
    for row in before {
        assert!(in_order.first_fit(*row), "the row {row} fits");
    }
    assert!(!in_order.first_fit(*last));
    // Enough to place all of them once, and to open two copies once.
    let decided = in_order.in_turn(0, &[*last], (Allowance::of(40_000), None));
    assert_eq!(decided, [Decided { served: true, proved: true }]);
    assert_eq!(in_order.state.values(&model), Some(vec![0]), "nobody else has lost a place");
}
