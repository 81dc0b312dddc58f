//! What kubelet's device manager knows.

use std::collections::{BTreeMap, BTreeSet};

use crate::messages::{ContainerDevices, ContainerResources, PodResources};

/// All that the socket and the checkpoint tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// The devices that plugins have registered and call healthy, by resource.
    pub healthy: BTreeMap<String, BTreeSet<String>>,
    /// The pods that were given devices.
    pub pods: Vec<Pod>,
    /// Whether `List` also names pods that have ended, without their devices, as kubelets before 1.34 do.
    pub lists_ended: bool,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Whether it has ended: `List` leaves it out, or its devices, and the checkpoint keeps both.
    pub ended: bool,
    /// Its containers.
    pub containers: Vec<Container>,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Whether it is an init container that ends: `List` leaves it out.
    pub init: bool,
    /// Whether its devices are entered in the checkpoint. In kubelet that comes
    /// after the entry that `List` shows.
    pub recorded: bool,
    /// Its devices, by resource.
    pub devices: BTreeMap<String, BTreeSet<String>>,
}

impl Pod {
    /// A pod with one container, `main`, that has these devices of one
    /// resource. Its uid is made of its name.
    #[must_use]
    pub fn new(namespace: &str, name: &str, resource: &str, devices: &[&str]) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: format!("uid-of-{name}"),
            ended: false,
            containers: vec![Container::new("main", resource, devices)],
        }
    }
}

impl Container {
    /// A container that has these devices of one resource.
    #[must_use]
    pub fn new(name: &str, resource: &str, devices: &[&str]) -> Self {
        let ids = devices.iter().map(|id| (*id).to_owned()).collect();
        let devices = BTreeMap::from([(resource.to_owned(), ids)]);
        Self { name: name.to_owned(), init: false, recorded: true, devices }
    }
}

/// A message for each device: kubelet tells the NUMA node of each.
fn messages(devices: &BTreeMap<String, BTreeSet<String>>) -> Vec<ContainerDevices> {
    let message = |resource: &String, id: &String| ContainerDevices {
        resource_name: resource.clone(),
        device_ids: vec![id.clone()],
    };
    devices.iter().flat_map(|(resource, ids)| ids.iter().map(|id| message(resource, id))).collect()
}

impl Books {
    /// What `GetAllocatableResources` answers the n-th time. Kubelet keeps its
    /// devices in maps, so that the order is another one each time.
    pub(crate) fn allocatable(&self, time: usize) -> Vec<ContainerDevices> {
        let mut devices = messages(&self.healthy);
        let first = time.checked_rem(devices.len()).unwrap_or(0);
        devices.rotate_left(first);
        devices
    }

    /// What `List` answers.
    pub(crate) fn listed(&self) -> Vec<PodResources> {
        let pod = |pod: &Pod| PodResources {
            name: pod.name.clone(),
            namespace: pod.namespace.clone(),
            containers: pod
                .containers
                .iter()
                .filter(|container| !container.init)
                .map(|container| ContainerResources {
                    name: container.name.clone(),
                    devices: if pod.ended { Vec::new() } else { messages(&container.devices) },
                })
                .collect(),
        };
        self.pods.iter().filter(|pod| self.lists_ended || !pod.ended).map(pod).collect()
    }
}
