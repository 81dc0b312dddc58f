//! What pods are made from, in little room.
//!
//! Thousands of workbenches and workloads ask for the same, and differ in how their containers and the claims
//! of their volumes are called. Kubernetes' own types take some kilobytes for each, since they have a place for
//! every field that is not there. So what has names of its own is kept beside the rest, and the rest is the same
//! value for all that are equal to it.

use k8s_openapi::api::core::v1::{Container, PersistentVolumeClaimVolumeSource, PodSpec, Volume};
use serde::{Deserialize, Serialize};

use super::shared::Shared;

/// The spec of a pod template. Nothing of it is lost: [`Self::whole`] is what it was made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "PodSpec", into = "PodSpec")]
pub struct TemplateSpec {
    /// The names of its containers, and of its init containers after them.
    containers: Box<[Box<str>]>,
    /// The claims of its volumes, where its volumes say nothing else.
    claims: Box<[Box<str>]>,
    /// All the rest.
    shape: Shared<PodSpec>,
}

impl TemplateSpec {
    /// Everything but the names of containers, and but volumes that say nothing but which claim they have: what
    /// the pod takes, and where it may go.
    #[must_use]
    pub fn shape(&self) -> &PodSpec {
        &self.shape
    }

    /// The same, to be shared with those that are equal.
    pub const fn shared(&mut self) -> &mut Shared<PodSpec> {
        &mut self.shape
    }

    /// The spec as it was written.
    #[must_use]
    pub fn whole(&self) -> PodSpec {
        self.clone().into()
    }

    /// The same in one piece: its shape has the names and the volumes, too. Whoever reads of a shape what is no
    /// part of it reads something else here, which tests look for.
    #[must_use]
    pub fn in_one_piece(&self) -> Self {
        Self { shape: Shared::new(self.whole()), ..Self::default() }
    }

    /// The same, with something changed.
    pub fn change<R>(&mut self, change: impl FnOnce(&mut PodSpec) -> R) -> R {
        let mut spec = std::mem::take(self).into();
        let result = change(&mut spec);
        *self = spec.into();
        result
    }
}

/// Those that run, and those before them.
fn containers(spec: &mut PodSpec) -> impl Iterator<Item = &mut Container> {
    spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten())
}

/// A volume that names a claim and says nothing else.
#[must_use]
pub fn only_claim(claim_name: &str) -> Volume {
    Volume {
        name: claim_name.to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim_name.to_owned(),
            read_only: None,
        }),
        ..Volume::default()
    }
}

impl From<PodSpec> for TemplateSpec {
    fn from(mut spec: PodSpec) -> Self {
        let names =
            containers(&mut spec).map(|container| std::mem::take(&mut container.name).into_boxed_str());
        let containers = names.collect();
        let is_only_claim = |volume: &Volume| *volume == only_claim(&volume.name);
        let volumes =
            spec.volumes.take_if(|volumes| !volumes.is_empty() && volumes.iter().all(is_only_claim));
        let claims = volumes.into_iter().flatten().map(|volume| volume.name.into_boxed_str()).collect();
        Self { containers, claims, shape: Shared::new(spec) }
    }
}

impl From<TemplateSpec> for PodSpec {
    fn from(small: TemplateSpec) -> Self {
        let mut spec = small.shape.into_value();
        for (container, name) in containers(&mut spec).zip(small.containers) {
            container.name = name.into_string();
        }
        if !small.claims.is_empty() {
            spec.volumes = Some(small.claims.iter().map(|claim| only_claim(claim)).collect());
        }
        spec
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(spec: Value) -> TemplateSpec {
        let whole: PodSpec = serde_json::from_value(spec).expect("a pod's spec");
        let small = TemplateSpec::from(whole.clone());
        assert_eq!(small.whole(), whole);
        assert_eq!((small.in_one_piece().shape(), small.in_one_piece().whole()), (&whole, whole.clone()));
        let read: TemplateSpec = serde_json::from_value(json!(whole)).expect("as it is written");
        assert_eq!((json!(&read), read), (json!(whole), small.clone()));
        small
    }

    #[test]
    fn nothing_is_lost() {
        check(json!({"containers": []}));
        check(json!({"containers": [{"name": ""}], "initContainers": [], "volumes": []}));
        let claim = json!({"name": "home", "persistentVolumeClaim": {"claimName": "home"}});
        check(
            json!({"containers": [{"name": "lab"}, {"name": "proxy"}], "initContainers": [{"name": "first"}],
            "volumes": [claim, claim]}),
        );
        let renamed = json!({"name": "home", "persistentVolumeClaim": {"claimName": "other"}});
        let read_only =
            json!({"name": "home", "persistentVolumeClaim": {"claimName": "home", "readOnly": true}});
        for other in [renamed, read_only, json!({"name": "shm", "emptyDir": {}})] {
            check(json!({"containers": [{"name": "lab"}], "volumes": [claim, other]}));
        }
    }

    #[test]
    fn names_are_no_difference_of_the_shape_and_what_is_asked_for_is() {
        let lab = |name: &str, slice: &str| {
            check(json!({"containers": [{"name": name, "resources": {"limits": {slice: "1"}}}],
                "volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}}]}))
        };
        let [a, b] = ["a", "b"].map(|name| lab(name, "nvidia.com/mig-1g.10gb"));
        assert_eq!(a.shape(), b.shape());
        assert_ne!(a, b);
        assert_ne!(a.shape(), lab("a", "nvidia.com/mig-3g.40gb").shape());
    }

    #[test]
    fn a_change_is_kept() {
        let mut lab = check(json!({"containers": [{"name": "lab"}]}));
        lab.change(|spec| spec.priority = Some(7));
        assert_eq!((lab.shape().priority, lab.whole().containers[0].name.as_str()), (Some(7), "lab"));
    }
}
