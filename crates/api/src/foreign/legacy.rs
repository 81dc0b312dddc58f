//! Kinds that OpenShift AI has removed: reported, neither read nor written.

/// What a legacy kind was replaced by; `None` for kinds that are not legacy.
#[must_use]
pub fn replacement(api_version: &str, kind: &str) -> Option<&'static str> {
    let (group, _) = api_version.split_once('/')?;
    match (group, kind) {
        ("dashboard.opendatahub.io", "HardwareProfile" | "AcceleratorProfile") => {
            Some("HardwareProfile of infrastructure.opendatahub.io/v1")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_dashboards_kinds_are_legacy() {
        assert!(replacement("dashboard.opendatahub.io/v1alpha1", "HardwareProfile").is_some());
        assert!(replacement("dashboard.opendatahub.io/v1", "AcceleratorProfile").is_some());
        assert!(replacement("infrastructure.opendatahub.io/v1", "HardwareProfile").is_none());
        assert!(replacement("v1", "Pod").is_none());
    }
}
