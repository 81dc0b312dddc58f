//! From kinds back to parts: which decision each copy of each part gets, with all levels in view. The first
//! levels of a copy are settled; here it gets the columns that cost least at the later ones.

use std::collections::{BTreeMap, BTreeSet};

use super::model::Model;
use super::price::Pattern;
use super::shape::Member;
use super::split::State;
use super::{Copy, KINDS, Part, Settled};
use crate::solver::greedy;
use crate::solver::instance::{Class, Column, Effort, Extra, Instance, Row, Sense};
use crate::solver::lexicographic;
use crate::solver::memory::Memory;

/// Nodes of the search for what one copy does at least cost, per level.
const ONE: Effort = Effort { nodes: 20 };
/// Nodes of the search for which copy does what.
const ALL: Effort = Effort { nodes: 60 };
/// Beyond so many pairs of a part and a pattern, the patterns are handed out in order.
const PAIRS: usize = 1_500;

/// A way for one copy of a part to do what a pattern says.
#[derive(Clone, Debug)]
struct Way {
    pattern: usize,
    /// By class of the part: `(column, GPUs)`.
    classes: Vec<Vec<(usize, u32)>>,
}

/// Settles a state of single copies; nothing, if that breaks a row.
pub(super) fn settle(model: &Model<'_>, parts: &[Part], state: &State) -> Option<Settled> {
    let mut instance = Instance { levels: model.instance.levels, ..Instance::default() };
    let mut position = vec![usize::MAX; model.instance.rows.len()];
    let apart = rows_apart(model, parts);
    for row in model.shared.iter().filter(|row| !apart[**row]) {
        position[*row] = instance.rows.len();
        instance.rows.push(model.instance.rows[*row]);
    }
    let shared = |terms: &[(usize, i32)]| -> Vec<(usize, i32)> {
        let kept = terms.iter().filter(|(row, _)| position[*row] != usize::MAX);
        kept.map(|(row, a)| (position[*row], *a)).collect()
    };
    let (mut of_part, mut of_part_extra) =
        (vec![false; model.instance.classes.len()], vec![false; model.instance.extras.len()]);
    for part in parts {
        part.classes.iter().for_each(|c| of_part[*c] = true);
        part.extras.iter().for_each(|e| of_part_extra[*e] = true);
    }
    let free: Vec<usize> = (0..of_part.len()).filter(|c| !of_part[*c]).collect();
    for class in free.iter().map(|c| &model.instance.classes[*c]) {
        let columns = class.columns.iter();
        let columns =
            columns.map(|c| Column { coefficients: shared(&c.coefficients), costs: c.costs.clone() });
        instance.classes.push(Class { count: class.count, columns: columns.collect() });
    }
    let is_apart = |e: &usize| model.instance.extras[*e].coefficients.iter().any(|(row, _)| apart[*row]);
    let rest = (0..of_part_extra.len()).filter(|e| !of_part_extra[*e]);
    let (rest_apart, rest): (Vec<usize>, Vec<usize>) = rest.partition(is_apart);
    for extra in rest.iter().map(|e| &model.instance.extras[*e]) {
        let mut extra = extra.clone();
        extra.coefficients = shared(&extra.coefficients);
        instance.extras.push(extra);
    }
    // (part, its ways), in the order of the instance's classes after the free ones.
    let mut ways: Vec<(usize, Vec<Way>)> = Vec::new();
    let mut patterns: Vec<(usize, Pattern)> = Vec::new();
    for (k, kind) in model.kinds.iter().enumerate() {
        let mut times: BTreeMap<&Pattern, u32> = BTreeMap::new();
        state.pieces.iter().filter(|p| p.kind == k).for_each(|p| *times.entry(&p.does).or_default() += 1);
        let first = patterns.len();
        let row = instance.rows.len();
        // Where there are very many kinds, most have one copy, and what it does needs no row.
        let is_one = model.are_many && kind.copies == 1;
        for (pattern, n) in &times {
            if !is_one {
                instance.rows.push(Row { sense: Sense::Equal, rhs: i64::from(*n) });
            }
            patterns.push((k, (*pattern).clone()));
        }
        let in_order = times.len() * kind.members.len() > PAIRS;
        let mut queue = times.values().zip(0..).flat_map(|(n, i)| std::iter::repeat_n(i, *n as usize));
        for member in &kind.members {
            let part = &parts[member.part];
            let mut mine: Vec<usize> = if in_order {
                queue.by_ref().take(part.copies as usize).collect()
            } else {
                (0..times.len()).collect()
            };
            mine.dedup();
            let mut of_member = Vec::new();
            let mut columns = Vec::new();
            for i in mine {
                let pattern = &patterns[first + i].1;
                let mut found = vec![as_it_is(member, part, pattern)];
                found.extend(cheapest(model, part, pattern).filter(|way| *way != found[0]));
                for classes in found {
                    let mut column = column(model, part, &classes, &pattern.extras);
                    column.coefficients = shared(&column.coefficients);
                    column.coefficients.extend((!is_one).then_some((row + i, 1)));
                    columns.push(column);
                    of_member.push(Way { pattern: first + i, classes });
                }
            }
            instance.classes.push(Class { count: part.copies, columns: columns.into() });
            ways.push((member.part, of_member));
        }
    }
    let solved = lexicographic::solve(&instance, ALL, &mut Memory::default()).ok()?;
    let mut copies: Vec<Vec<Copy>> = vec![vec![]; parts.len()];
    for ((part, ways), chosen) in ways.iter().zip(&solved.classes[free.len()..]) {
        for (j, n) in chosen {
            let Way { pattern, classes } = &ways[*j];
            let copy = Copy { classes: classes.clone(), extras: patterns[*pattern].1.extras.clone() };
            copies[*part].extend((0..*n).map(|_| copy.clone()));
        }
    }
    let mut classes: Vec<Vec<(usize, u32)>> = vec![vec![]; model.instance.classes.len()];
    let mut extras = vec![0; model.instance.extras.len()];
    free.iter().zip(&solved.classes).for_each(|(c, chosen)| classes[*c].clone_from(chosen));
    rest.iter().zip(&solved.extras).for_each(|(e, n)| extras[*e] = *n);
    for (part, copies) in parts.iter().zip(&copies) {
        if !copies.iter().all(|copy| is_one(model.instance, part, copy)) {
            return None;
        }
        for (i, class) in part.classes.iter().enumerate() {
            let mut sum: BTreeMap<usize, u32> = BTreeMap::new();
            let all = copies.iter().flat_map(|copy| &copy.classes[i]);
            all.for_each(|(j, n)| *sum.entry(*j).or_default() += n);
            classes[*class] = sum.into_iter().collect();
        }
        for (i, extra) in part.extras.iter().enumerate() {
            extras[*extra] = copies.iter().map(|copy| copy.extras[i]).sum();
        }
    }
    let left: Vec<Extra> = rest_apart.iter().map(|e| model.instance.extras[*e].clone()).collect();
    let mut sums = vec![0; model.instance.rows.len()];
    for (extra, n) in model.instance.extras.iter().zip(&extras) {
        extra.coefficients.iter().for_each(|(row, a)| sums[*row] += i64::from(*a) * n);
    }
    let left = greedy::fill(&model.instance.rows, &left, &mut sums);
    rest_apart.iter().zip(left).for_each(|(e, n)| extras[*e] = n);
    if !model.instance.is_met_by(&classes, &extras) {
        return None;
    }
    let values = model.instance.values(&classes, &extras);
    Some(Settled { choice: (classes, extras), values, copies })
}

/// Rows of which nothing is open: patterns say what is done, whichever copy has which, and what is left follows. There
/// are such where there are many kinds of things to do, or very many parts, and a program with a row for each would take long.
fn rows_apart(model: &Model<'_>, parts: &[Part]) -> Vec<bool> {
    let things = model.coverable.iter().filter(|coverable| **coverable).count();
    if things <= KINDS && !model.are_many {
        return vec![false; model.coverable.len()];
    }
    let mut apart = model.coverable.clone();
    let of_parts: BTreeSet<usize> = parts.iter().flat_map(|part| &part.extras).copied().collect();
    let extras = model.instance.extras.iter().enumerate().filter(|(e, _)| !of_parts.contains(e));
    for (_, extra) in extras.filter(|(_, extra)| !matches!(extra.coefficients[..], [(_, 1)])) {
        extra.coefficients.iter().for_each(|(row, _)| apart[*row] = false);
    }
    apart
}

/// The pattern's own columns.
fn as_it_is(member: &Member, part: &Part, pattern: &Pattern) -> Vec<Vec<(usize, u32)>> {
    let mut classes = vec![vec![]; part.classes.len()];
    for (behind, chosen) in member.blocks.iter().zip(&pattern.blocks) {
        let mut chosen = chosen.iter().copied();
        let mut now = chosen.next();
        for (class, count, originals) in behind {
            let mut open = *count;
            while open > 0
                && let Some((j, n)) = &mut now
            {
                let taken = open.min(*n);
                classes[*class].push((originals[*j], u32::try_from(taken).unwrap_or(u32::MAX)));
                open -= taken;
                *n -= taken;
                if *n == 0 {
                    now = chosen.next();
                }
            }
        }
    }
    classes.iter_mut().for_each(|chosen| chosen.sort_unstable());
    classes
}

/// The columns that do what the pattern does at least cost, rows that are
/// shared left aside.
fn cheapest(model: &Model<'_>, part: &Part, pattern: &Pattern) -> Option<Vec<Vec<(usize, u32)>>> {
    let whole = model.instance;
    let copies = i64::from(part.copies.max(1));
    let mut position = vec![usize::MAX; whole.rows.len()];
    let mut instance = Instance { levels: whole.levels, ..Instance::default() };
    for (i, row) in part.rows.iter().enumerate() {
        position[*row] = i;
        let Row { sense, rhs } = whole.rows[*row];
        instance.rows.push(Row { sense, rhs: rhs.div_euclid(copies) });
    }
    for (extra, n) in part.extras.iter().zip(&pattern.extras) {
        for (row, a) in &whole.extras[*extra].coefficients {
            if let Some(row) = instance.rows.get_mut(position[*row]) {
                row.rhs -= i64::from(*a) * n;
            }
        }
    }
    for class in part.classes.iter().map(|c| &whole.classes[*c]) {
        let columns = class.columns.iter().map(|column| {
            let own = column.coefficients.iter().filter(|(row, _)| position[*row] != usize::MAX);
            Column {
                coefficients: own.map(|(row, a)| (position[*row], *a)).collect(),
                costs: column.costs.clone(),
            }
        });
        let count = u32::try_from(i64::from(class.count) / copies).unwrap_or(u32::MAX);
        instance.classes.push(Class { count, columns: columns.collect() });
    }
    Some(lexicographic::solve(&instance, ONE, &mut Memory::default()).ok()?.classes)
}

/// What a copy gives to the rows, and costs, as one column.
fn column(model: &Model<'_>, part: &Part, classes: &[Vec<(usize, u32)>], extras: &[i64]) -> Column {
    let mut sums: BTreeMap<usize, i64> = BTreeMap::new();
    let mut costs = vec![0_i64; model.instance.levels];
    let mut add = |coefficients: &[(usize, i32)], cost: &[i64], n: i64| {
        for (row, a) in coefficients {
            *sums.entry(*row).or_default() += i64::from(*a) * n;
        }
        costs.iter_mut().zip(cost).for_each(|(sum, cost)| *sum += cost * n);
    };
    for (class, chosen) in part.classes.iter().zip(classes) {
        for (j, n) in chosen {
            let column = &model.instance.classes[*class].columns[*j];
            add(&column.coefficients, &column.costs, i64::from(*n));
        }
    }
    for (extra, n) in part.extras.iter().zip(extras) {
        let extra = &model.instance.extras[*extra];
        add(&extra.coefficients, &extra.costs, *n);
    }
    let coefficients = sums.into_iter().filter(|(_, a)| *a != 0);
    let coefficients = coefficients.map(|(row, a)| (row, i32::try_from(a).unwrap_or(i32::MAX))).collect();
    Column { coefficients, costs }
}

/// Whether a copy is one: it has as many GPUs as it should, and meets its rows.
fn is_one(instance: &Instance, part: &Part, copy: &Copy) -> bool {
    let copies = i64::from(part.copies.max(1));
    let mut sums: BTreeMap<usize, i64> = part.rows.iter().map(|row| (*row, 0)).collect();
    for (class, chosen) in part.classes.iter().zip(&copy.classes) {
        let class = &instance.classes[*class];
        if chosen.iter().map(|(_, n)| i64::from(*n)).sum::<i64>() * copies != i64::from(class.count) {
            return false;
        }
        for (j, n) in chosen {
            for (row, a) in &class.columns[*j].coefficients {
                sums.entry(*row).and_modify(|sum| *sum += i64::from(*a) * i64::from(*n));
            }
        }
    }
    for (extra, n) in part.extras.iter().zip(&copy.extras) {
        for (row, a) in &instance.extras[*extra].coefficients {
            sums.entry(*row).and_modify(|sum| *sum += i64::from(*a) * n);
        }
    }
    sums.iter().all(|(row, sum)| {
        let Row { sense, rhs } = instance.rows[*row];
        let rhs = rhs.div_euclid(copies);
        match sense {
            Sense::AtLeast => *sum >= rhs,
            Sense::AtMost => *sum <= rhs,
            Sense::Equal => *sum == rhs,
        }
    })
}
