//! What pods are made from, in little room.
//!
//! Thousands of workbenches and workloads are made alike, and differ in how their containers and the claims of
//! their volumes are called, and in how much they ask for. Kubernetes' own types take some kilobytes for each, since
//! they have a place for every field that is not there. So what one has of its own is kept beside the rest, and the
//! rest is the same value for all that are equal to it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, PersistentVolumeClaimVolumeSource, PodSpec, ResourceRequirements, Volume,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::{Deserialize, Serialize};

use super::shared::Shared;
use super::string_map::StringMap;

/// The spec of a pod template. Nothing of it is lost: [`Self::whole`] is what it was made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "PodSpec", into = "PodSpec")]
pub struct TemplateSpec {
    /// What its containers have of their own, and its init containers after them.
    containers: Box<[Own]>,
    /// The claims of its volumes, where its volumes say nothing else.
    claims: Box<[Box<str>]>,
    /// All the rest.
    shape: Shared<PodSpec>,
}

/// What a container has of its own.
#[derive(Clone, Debug, Default, PartialEq)]
struct Own {
    name: Box<str>,
    limits: Option<Shared<StringMap>>,
    requests: Option<Shared<StringMap>>,
}

/// What a container of a template asks for.
#[derive(Clone, Copy, Debug)]
pub struct Asks<'a> {
    /// Whether it is an init container that keeps running.
    pub keeps_running: bool,
    own: Option<&'a Own>,
    rest: Option<&'a ResourceRequirements>,
}

impl<'a> Asks<'a> {
    /// Resources and amounts: first the limits, then the requests, of which one goes before a limit of its resource.
    pub fn amounts(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let of = |map: Option<&'a Shared<StringMap>>, rest: Option<&'a BTreeMap<String, Quantity>>| {
            let rest = rest.into_iter().flatten().map(|(name, amount)| (name.as_str(), amount.0.as_str()));
            map.into_iter().flat_map(|map| map.iter()).chain(rest)
        };
        let limits = self.own.and_then(|own| own.limits.as_ref());
        let requests = self.own.and_then(|own| own.requests.as_ref());
        of(limits, self.rest.and_then(|rest| rest.limits.as_ref()))
            .chain(of(requests, self.rest.and_then(|rest| rest.requests.as_ref())))
    }
}

impl TemplateSpec {
    /// Everything but the names of containers, what they ask for, and volumes that say nothing but which claim they
    /// have: above all where the pod may go.
    #[must_use]
    pub fn shape(&self) -> &PodSpec {
        &self.shape
    }

    /// The same, to be shared with those that are equal.
    pub const fn shared(&mut self) -> &mut Shared<PodSpec> {
        &mut self.shape
    }

    /// The limits and the requests of each container, to be shared with those that are equal.
    pub fn shared_amounts(&mut self) -> impl Iterator<Item = &mut Shared<StringMap>> {
        self.containers.iter_mut().flat_map(|own| own.limits.iter_mut().chain(&mut own.requests))
    }

    /// What its containers ask for.
    pub fn containers(&self) -> impl Iterator<Item = Asks<'_>> {
        let own = self.containers.iter().map(Some).chain(std::iter::repeat(None));
        self.shape.containers.iter().zip(own).map(|(container, own)| asks(container, own, false))
    }

    /// What its containers are called.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let own = self.containers.iter().map(Some).chain(std::iter::repeat(None));
        let all = self.shape.containers.iter().zip(own);
        all.map(|(container, own)| own.map_or(container.name.as_str(), |own| &own.name))
    }

    /// What its init containers ask for.
    pub fn init_containers(&self) -> impl Iterator<Item = Asks<'_>> {
        let own = self.containers.iter().skip(self.shape.containers.len());
        let own = own.map(Some).chain(std::iter::repeat(None));
        let init = self.shape.init_containers.iter().flatten();
        init.zip(own).map(|(container, own)| {
            asks(container, own, container.restart_policy.as_deref() == Some("Always"))
        })
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

fn asks<'a>(container: &'a Container, own: Option<&'a Own>, keeps_running: bool) -> Asks<'a> {
    Asks { keeps_running, own, rest: container.resources.as_ref() }
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

impl Own {
    /// Takes it out of a container.
    fn of(container: &mut Container) -> Self {
        let small = |map: BTreeMap<String, Quantity>| {
            let texts: BTreeMap<_, _> = map.into_iter().map(|(name, amount)| (name, amount.0)).collect();
            Shared::new(StringMap::from(texts))
        };
        let resources = container.resources.as_mut();
        let (limits, requests) =
            resources.map_or((None, None), |all| (all.limits.take(), all.requests.take()));
        Self {
            name: std::mem::take(&mut container.name).into_boxed_str(),
            limits: limits.map(small),
            requests: requests.map(small),
        }
    }

    fn put_back(self, container: &mut Container) {
        let whole = |map: Shared<StringMap>| {
            let texts = BTreeMap::from(map.into_value()).into_iter();
            texts.map(|(name, amount)| (name, Quantity(amount))).collect()
        };
        container.name = self.name.into_string();
        // Whoever had some of them has the place for them.
        if let Some(resources) = &mut container.resources {
            resources.limits = self.limits.map(whole);
            resources.requests = self.requests.map(whole);
        }
    }
}

impl From<PodSpec> for TemplateSpec {
    fn from(mut spec: PodSpec) -> Self {
        let containers = containers(&mut spec).map(Own::of).collect();
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
        for (container, own) in containers(&mut spec).zip(small.containers) {
            own.put_back(container);
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
    fn names_and_amounts_are_no_difference_of_the_shape_and_where_it_may_go_is() {
        let lab = |name: &str, slice: &str, pool: &str| {
            check(json!({"containers": [{"name": name, "resources": {"limits": {slice: "1"}}}],
                "volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}}],
                "nodeSelector": {"pool": pool}}))
        };
        let a = lab("a", "nvidia.com/mig-1g.10gb", "x");
        for other in [lab("b", "nvidia.com/mig-1g.10gb", "x"), lab("a", "nvidia.com/mig-3g.40gb", "x")] {
            assert_eq!(a.shape(), other.shape());
            assert_ne!(a, other);
        }
        assert_ne!(a.shape(), lab("a", "nvidia.com/mig-1g.10gb", "y").shape());
    }

    fn read(asks: Asks<'_>) -> (bool, Vec<(&str, &str)>) {
        (asks.keeps_running, asks.amounts().collect())
    }

    #[test]
    fn what_containers_ask_for_is_read_alike_of_one_piece_and_of_parts() {
        let small = check(json!({
            "containers": [
                {"name": "lab", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}},
                {"name": "proxy"},
                {"name": "none", "resources": {"limits": {}}},
                {"name": "claims", "resources": {"requests": {"cpu": "3"}, "claims": [{"name": "gpu"}]}},
            ],
            "initContainers": [
                {"name": "first", "resources": {"requests": {"cpu": "4"}}},
                {"name": "side", "restartPolicy": "Always", "resources": {"limits": {"cpu": "5"}}},
            ],
        }));
        for spec in [small.in_one_piece(), small] {
            let containers: Vec<_> = spec.containers().map(read).collect();
            let [lab, proxy, none, claims] = &containers[..] else { panic!("{containers:?}") };
            assert_eq!(*lab, (false, vec![("cpu", "2"), ("memory", "1Gi"), ("cpu", "1")]));
            assert_eq!(
                (proxy, none, claims),
                (&(false, vec![]), &(false, vec![]), &(false, vec![("cpu", "3")]))
            );
            let init: Vec<_> = spec.init_containers().map(read).collect();
            assert_eq!(init, [(false, vec![("cpu", "4")]), (true, vec![("cpu", "5")])]);
        }
    }

    #[test]
    fn a_change_is_kept() {
        let mut lab = check(json!({"containers": [{"name": "lab"}]}));
        lab.change(|spec| spec.priority = Some(7));
        assert_eq!((lab.shape().priority, lab.whole().containers[0].name.as_str()), (Some(7), "lab"));
    }
}
