//! Rules of which a search of some length would hide whether they hold: tests on copies that are packed.

use super::fill::Filling;
use super::model::Model;
use super::order::{InOrder, Orders};
use super::refill;
use super::split::State;
use super::{Asked, Copy, Decided, Known, Part};
use crate::solver::answers::Answers;
use crate::solver::instance::{Class, Column, Effort, Extra, Instance, Row, RowIndex, Sense};
use crate::solver::work::{Allowance, done};

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
        let filling = Filling::new(&model, &parts, (&orders, Known::NOTHING), None);
        let filling = filling.expect("nothing done is a state");
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
    let start = Asked { start: Known { copies: &first.copies, ..Known::NOTHING }, ..asked };
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
    let mut needed = vec![0; instance.rows.len()];
    before.iter().for_each(|row| needed[*row] = 1);
    let decided = in_order.in_turn((0, needed), &[*last], (Allowance::of(40_000), None));
    assert_eq!(decided, [Decided { served: true, proved: true }]);
    assert_eq!(in_order.state.values(&model), Some(vec![0]), "nobody else has lost a place");
}

/// Two copies of which the one does 3 and 7, and the other 5 and 5: in this order, first fit finds no place for 7.
const KNOWN: [[usize; 2]; 2] = [[0, 3], [1, 2]];

/// What is known of 3, 5, 5 and 7 on two copies.
fn known(model: &Model<'_>) -> State {
    let mut state = refill::nothing(model);
    for (piece, does) in state.pieces.iter_mut().zip(KNOWN) {
        does.into_iter().for_each(|thing| piece.does.extras[thing] = 1);
    }
    state
}

/// Who is served of 3, 5, 5 and 7, which are served already, and of something that comes before or after them. `needed`: whether
/// earlier levels need what is done. And what is not done in the end.
fn decided_beside_known(size: i32, comes_first: bool, needed: bool) -> (Vec<bool>, i64) {
    let (instance, parts) = packing(2, &[3, 5, 5, 7, size]);
    let model = Model::new(&instance, &parts, 1);
    let state = known(&model);
    assert_eq!(state.values(&model), Some(vec![1]), "all but one are done");
    let mut sums = vec![0; instance.rows.len()];
    (FIRST..FIRST + 4).for_each(|row| sums[row] = i64::from(needed));
    let mut queue: Vec<RowIndex> = (FIRST..FIRST + 4).collect();
    queue.insert(if comes_first { 0 } else { 4 }, FIRST + 4);
    let mut in_order = InOrder::new(&model, state, &[0, 0]);
    // Next to nothing: who is served has to be seen at once.
    let decided = in_order.in_turn((0, sums), &queue, (Allowance::of(1), None));
    let values = in_order.state.values(&model).expect("no row is broken");
    (decided.into_iter().map(|decided| decided.served).collect(), values[0])
}

/// What is known serves them, though nobody would find it again.
#[test]
fn who_is_served_by_what_is_known_stays_served_and_nobody_is_passed_over_for_who_cannot_be() {
    assert_eq!(decided_beside_known(11, true, false), (vec![false, true, true, true, true], 1));
    assert_eq!(decided_beside_known(9, false, false), (vec![true, true, true, true, false], 1));
}

#[test]
fn who_comes_first_takes_the_place_of_who_comes_later_and_is_needed_by_nothing() {
    assert_eq!(decided_beside_known(9, true, false), (vec![true, true, true, false, false], 2));
    assert_eq!(decided_beside_known(9, true, true), (vec![false, true, true, true, true], 1));
}

#[test]
fn where_some_come_first_what_is_known_of_all_of_them_is_taken_without_a_search() {
    let (instance, parts) = packing(2, &[3, 5, 5, 7]);
    let model = Model::new(&instance, &parts, 1);
    let orders =
        Orders { copies: vec![0; 2], starts: vec![], turns: vec![(0, (FIRST..FIRST + 4).collect())] };
    let filled = |known: Known<'_>| {
        let filling = Filling::new(&model, &parts, (&orders, known), None);
        let mut filling = filling.expect("nothing done is a state");
        let before = done();
        filling.up_to(1).expect("it can be filled");
        (filling.copies(&parts), done() - before)
    };
    let copies = known(&model).copies(&model, &parts);
    let (_, work) = filled(Known::NOTHING);
    let (kept, less) = filled(Known { copies: &copies, searched: 0 });
    assert_eq!(kept, copies);
    assert!(less < work, "{less} operations, and {work} without it");
}

/// The plan that a choice is of may have looked at columns that nobody looks at here, since another one does no less.
#[test]
fn in_place_of_a_column_that_is_not_looked_at_another_one_does_as_much() {
    let (mut instance, parts) = packing(2, &[3, 5, 5, 7]);
    let column = |slices| Column { coefficients: vec![(0, slices)], costs: vec![] };
    instance.classes[0].columns = [6, 8, 7].map(column).into();
    let model = Model::new(&instance, &parts, 1);
    assert_eq!(model.kinds[0].shape.blocks[0].drafts.len(), 1, "all are looked at, so this says nothing");
    let of = |column: usize| {
        let copy = |does: [usize; 2]| Copy {
            classes: vec![vec![(column, 1)]],
            extras: (0..4).map(|thing| i64::from(does.contains(&thing))).collect(),
        };
        vec![KNOWN.map(copy).to_vec()]
    };
    let state = State::from_copies(&model, &of(2)).expect("the other column does no less");
    assert_eq!(state.values(&model), Some(vec![0]));
    assert_eq!(state.copies(&model, &parts), of(1));
}

/// Of four things that are larger than half of a copy, three copies have room for three, and no price says so.
#[test]
fn whoever_says_how_much_work_a_choice_is_worth_has_it_done_within_that() {
    let sizes = [6, 6, 6, 6];
    let (instance, parts) = packing(3, &sizes);
    let model = Model::new(&instance, &parts, 1);
    let queue: Vec<RowIndex> = (FIRST..).take(sizes.len()).collect();
    for turns in [vec![], vec![(0, queue)]] {
        let orders = Orders { copies: vec![0; 3], starts: vec![], turns };
        let work = |within: u64| {
            let filling = Filling::new(&model, &parts, (&orders, Known::NOTHING), Some(within));
            let mut filling = filling.expect("nothing done is a state");
            let before = done();
            filling.up_to(1).expect("it can be filled");
            assert_eq!(filling.held(1), [1]);
            done() - before
        };
        let (less, more) = (work(100_000), work(10_000_000));
        assert!(less < 1_000_000 && more < 100_000_000, "{less} and {more} operations");
    }
}
