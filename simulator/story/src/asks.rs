//! Requests of pods and resources of nodes, as numbers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Resources by name. CPU is in thousandths of a core; everything else in its
/// own unit.
pub(crate) type Amounts = BTreeMap<String, i64>;

/// The number of a quantity. `None` when it is not one.
pub(crate) fn amount(resource: &str, quantity: &Quantity) -> Option<i64> {
    const SUFFIXES: [(&str, f64); 13] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
    ];
    let text = quantity.0.as_str();
    let (digits, factor) = SUFFIXES
        .iter()
        .find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor)))
        .unwrap_or((text, 1.0));
    let factor = if resource == "cpu" { factor * 1000.0 } else { factor };
    let number: f64 = digits.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0)?;
    // Kubernetes rounds a fraction of the unit up.
    #[expect(clippy::cast_possible_truncation, reason = "far below 2^53 for every machine there is")]
    Some((number * factor).ceil() as i64)
}

/// The amounts of a list of quantities; what cannot be read is left out.
pub(crate) fn amounts(list: Option<&BTreeMap<String, Quantity>>) -> Amounts {
    let read = |(name, quantity): (&String, &Quantity)| Some((name.clone(), amount(name, quantity)?));
    list.into_iter().flatten().filter_map(read).collect()
}

/// What a container asks for: its requests, and its limits where it says no
/// request.
fn of_container(container: &Container) -> Amounts {
    let Some(resources) = &container.resources else { return Amounts::new() };
    let mut asks = amounts(resources.limits.as_ref());
    asks.extend(amounts(resources.requests.as_ref()));
    asks
}

/// What a pod takes of its node, the pod slot included.
pub(crate) fn of_pod(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    let mut asks = Amounts::new();
    for container in &spec.containers {
        for (name, amount) in of_container(container) {
            *asks.entry(name).or_insert(0) += amount;
        }
    }
    for container in spec.init_containers.iter().flatten() {
        for (name, amount) in of_container(container) {
            let entry = asks.entry(name).or_insert(0);
            *entry = amount.max(*entry);
        }
    }
    asks.insert("pods".to_owned(), 1);
    asks
}

/// Whether a pod is over: it holds nothing any more.
pub(crate) fn is_over(pod: &Pod) -> bool {
    matches!(pod.status.as_ref().and_then(|s| s.phase.as_deref()), Some("Succeeded" | "Failed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        let read = |resource, text: &str| amount(resource, &Quantity(text.to_owned()));
        assert_eq!(read("cpu", "8"), Some(8000));
        assert_eq!(read("cpu", "500m"), Some(500));
        assert_eq!(read("memory", "32Gi"), Some(32 << 30));
        assert_eq!(read("memory", "1.5G"), Some(1_500_000_000));
        assert_eq!(read("nvidia.com/mig-1g.5gb", "1"), Some(1));
        assert_eq!(read("memory", "-1"), None);
        assert_eq!(read("memory", "lots"), None);
    }
}
