//! Label selectors: whether expressions match labels, as Kubernetes defines
//! it for nodes and namespaces.

use std::collections::BTreeMap;

use crate::demand::{Expression, Operator};

/// What is known of one label's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    /// There is no such label.
    Absent,
    /// It has this value.
    Is(String),
    /// It is an integer between these two, both included, and it is open which.
    Between(i64, i64),
    /// It has one of these two values, and it is open which.
    Either(String, String),
    /// It is there, and nobody can say with which value.
    Any,
}

impl From<Option<&String>> for Label {
    fn from(value: Option<&String>) -> Self {
        value.map_or(Self::Absent, |value| Self::Is(value.clone()))
    }
}

/// Whether all expressions match the labels. No expression at all matches
/// everything; callers for whom that is wrong ask first.
#[must_use]
pub fn matches(expressions: &[Expression], labels: &BTreeMap<String, String>) -> bool {
    expressions.iter().all(|e| matches_label(e, &labels.get(&e.key).into()))
}

/// Whether the expression matches a label, or, where its value is open, can
/// match it. The expression's key is not looked at.
#[must_use]
pub fn matches_label(expression: &Expression, label: &Label) -> bool {
    let Expression { key: _, operator, values } = expression;
    match (operator, label) {
        (Operator::Exists, label) => *label != Label::Absent,
        (Operator::DoesNotExist, label) => *label == Label::Absent,
        (Operator::NotIn, Label::Absent) => true,
        (_, Label::Absent) => false,
        (_, Label::Any) => true,
        (Operator::In, Label::Is(value)) => values.contains(value),
        (Operator::NotIn, Label::Is(value)) => !values.contains(value),
        (Operator::In, Label::Either(one, other)) => values.contains(one) || values.contains(other),
        (Operator::NotIn, Label::Either(one, other)) => !values.contains(one) || !values.contains(other),
        (Operator::In, Label::Between(low, high)) => {
            values.iter().filter_map(|v| v.parse().ok()).any(|v: i64| (*low..=*high).contains(&v))
        }
        (Operator::NotIn, Label::Between(low, high)) => low < high || !values.contains(&low.to_string()),
        (Operator::Gt, label) => beyond(values, label, |bound, low, high| low.max(high) > bound),
        (Operator::Lt, label) => beyond(values, label, |bound, low, high| low.min(high) < bound),
    }
}

/// `Gt` and `Lt`: exactly one value, and integers on both sides; anything
/// else matches nothing, as in the scheduler.
fn beyond(values: &[String], label: &Label, compare: impl Fn(i64, i64, i64) -> bool) -> bool {
    let [bound] = values else { return false };
    let Ok(bound) = bound.parse() else { return false };
    match label {
        Label::Is(value) => value.parse().is_ok_and(|value| compare(bound, value, value)),
        Label::Between(low, high) => compare(bound, *low, *high),
        Label::Either(one, other) => {
            let numbers = [one, other].map(|value| value.parse().ok());
            numbers.into_iter().flatten().any(|value| compare(bound, value, value))
        }
        Label::Absent => false,
        Label::Any => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(operator: Operator, values: &[&str], label: Label, expect: bool) {
        let expression = Expression {
            key: "team".into(),
            operator,
            values: values.iter().map(|v| (*v).to_owned()).collect(),
        };
        assert_eq!(matches_label(&expression, &label), expect, "{expression:?} on {label:?}");
    }

    #[test]
    fn operators_mean_what_kubernetes_means() {
        let is = |value: &str| Label::Is(value.to_owned());
        check(Operator::In, &["red", "blue"], is("blue"), true);
        check(Operator::In, &["red", "blue"], is("green"), false);
        check(Operator::In, &["red"], Label::Absent, false);
        check(Operator::NotIn, &["red"], is("red"), false);
        check(Operator::NotIn, &["red"], is("blue"), true);
        check(Operator::NotIn, &["red"], Label::Absent, true);
        check(Operator::Exists, &[], is(""), true);
        check(Operator::Exists, &[], Label::Absent, false);
        check(Operator::DoesNotExist, &[], Label::Absent, true);
        check(Operator::DoesNotExist, &[], is("red"), false);
        check(Operator::Gt, &["4"], is("5"), true);
        check(Operator::Gt, &["4"], is("4"), false);
        check(Operator::Lt, &["4"], is("-3"), true);
        check(Operator::Lt, &["4"], is("four"), false);
        check(Operator::Gt, &["four"], is("5"), false);
        check(Operator::Gt, &["1", "2"], is("5"), false);
        check(Operator::Gt, &["4"], Label::Absent, false);
    }

    #[test]
    fn an_open_value_matches_what_it_can_become() {
        check(Operator::In, &["4"], Label::Between(2, 7), true);
        check(Operator::In, &["8"], Label::Between(2, 7), false);
        check(Operator::NotIn, &["2"], Label::Between(2, 2), false);
        check(Operator::Gt, &["6"], Label::Between(2, 7), true);
        check(Operator::Gt, &["7"], Label::Between(2, 7), false);
        check(Operator::Lt, &["2"], Label::Between(2, 7), false);
        let either = || Label::Either("a".to_owned(), "4".to_owned());
        check(Operator::In, &["b", "4"], either(), true);
        check(Operator::In, &["b"], either(), false);
        check(Operator::NotIn, &["a"], either(), true);
        check(Operator::NotIn, &["a", "4"], either(), false);
        check(Operator::Exists, &[], either(), true);
        check(Operator::Gt, &["3"], either(), true);
        check(Operator::Lt, &["3"], either(), false);
        check(Operator::In, &["x"], Label::Any, true);
        check(Operator::DoesNotExist, &[], Label::Any, false);
    }
}
