//! One trimmed object, as the store receives it.

use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, Node, NodeSelectorTerm, PersistentVolume, PersistentVolumeClaim, Pod,
};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{DynamicObject, PartialObjectMeta};
use observe::objects::Key;

use super::bounds::Bounded;
use super::{key, trim};

/// An object, trimmed.
#[derive(Clone, Debug)]
pub enum Item {
    /// A node.
    Node(Box<Node>),
    /// A pod.
    Pod(Box<Pod>),
    /// A namespace.
    Namespace(Box<ObjectMeta>),
    /// A priority class.
    PriorityClass(Box<PriorityClass>),
    /// A claim of a volume: its version, and which volume it is bound to.
    VolumeClaim {
        /// Whose it is.
        key: Key,
        /// Its version.
        version: Option<String>,
        /// The volume.
        volume: Option<String>,
    },
    /// A volume: its version, and the nodes that can have it.
    Volume {
        /// Its name.
        name: String,
        /// Its version.
        version: Option<String>,
        /// One term must match; nothing where every node can have it.
        nodes: Option<Vec<NodeSelectorTerm>>,
    },
    /// A map of layouts.
    ConfigMap(Box<ConfigMap>),
    /// The name of a CRD.
    Definition(String),
    /// An object of ours or of a foreign kind, to be read by its kind.
    Dynamic(Box<DynamicObject>),
}

impl Item {
    /// A node.
    #[must_use]
    pub fn node(full: Node) -> Self {
        Self::Node(Box::new(trim::node(full)))
    }

    /// A pod.
    #[must_use]
    pub fn pod(full: Pod) -> Self {
        Self::Pod(Box::new(trim::pod(full)))
    }

    /// A pod that was read within bounds.
    #[must_use]
    pub fn bounded_pod(Bounded(pod): Bounded<Pod>) -> Self {
        Self::pod(pod)
    }

    /// An object of a foreign kind that was read within bounds.
    #[must_use]
    pub fn bounded(Bounded(object): Bounded<DynamicObject>) -> Self {
        Self::dynamic(object)
    }

    /// A namespace, of which only the metadata was asked for.
    #[must_use]
    pub fn namespace(full: PartialObjectMeta<Namespace>) -> Self {
        Self::Namespace(Box::new(trim::labels_only(full.metadata)))
    }

    /// A priority class.
    #[must_use]
    pub fn priority_class(full: PriorityClass) -> Self {
        Self::PriorityClass(Box::new(trim::priority_class(full)))
    }

    /// A claim of a volume, which anybody can write.
    #[must_use]
    pub fn volume_claim(Bounded(full): Bounded<PersistentVolumeClaim>) -> Self {
        let (key, version) = (key(&full.metadata), full.metadata.resource_version.clone());
        Self::VolumeClaim { key, version, volume: observe::volumes::bound_to(full) }
    }

    /// A volume.
    #[must_use]
    pub fn volume(full: PersistentVolume) -> Self {
        let name = full.metadata.name.clone().unwrap_or_default();
        let version = full.metadata.resource_version.clone();
        Self::Volume { name, version, nodes: observe::volumes::place(full) }
    }

    /// A map of layouts.
    #[must_use]
    pub fn config_map(full: ConfigMap) -> Self {
        Self::ConfigMap(Box::new(trim::config_map(full)))
    }

    /// An object of ours or of a foreign kind.
    #[must_use]
    pub fn dynamic(mut full: DynamicObject) -> Self {
        full.metadata.managed_fields = None;
        if let Some(annotations) = &mut full.metadata.annotations {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
        Self::Dynamic(Box::new(full))
    }
}

/// Key and version of an object.
pub(super) fn identity(item: &Item) -> (Key, Option<String>) {
    let of = |meta: &ObjectMeta| (key(meta), meta.resource_version.clone());
    match item {
        Item::Node(node) => of(&node.metadata),
        Item::Pod(pod) => of(&pod.metadata),
        Item::Namespace(meta) => of(meta),
        Item::PriorityClass(class) => of(&class.metadata),
        Item::VolumeClaim { key, version, .. } => (key.clone(), version.clone()),
        Item::Volume { name, version, .. } => ((String::new(), name.clone()), version.clone()),
        Item::ConfigMap(map) => of(&map.metadata),
        Item::Definition(name) => ((String::new(), name.clone()), None),
        Item::Dynamic(object) => of(&object.metadata),
    }
}
