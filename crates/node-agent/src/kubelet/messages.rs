//! The messages of pod-resources v1, as far as they are about devices. Fields that are not here are skipped.

/// The question `List`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct ListPodResourcesRequest {}

/// Its answer.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct ListPodResourcesResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) pod_resources: Vec<PodResources>,
}

/// A pod.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct PodResources {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) namespace: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) containers: Vec<ContainerResources>,
}

/// A container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct ContainerResources {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) devices: Vec<ContainerDevices>,
}

/// Devices of one resource.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct ContainerDevices {
    #[prost(string, tag = "1")]
    pub(super) resource_name: String,
    #[prost(string, repeated, tag = "2")]
    pub(super) device_ids: Vec<String>,
}

/// The question `GetAllocatableResources`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct AllocatableResourcesRequest {}

/// Its answer.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct AllocatableResourcesResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) devices: Vec<ContainerDevices>,
}
