//! Kubelet's pod-resources API, version 1, over its unix socket: which devices it can give away
//! (`GetAllocatableResources`) and which container has which (`List`).
//!
//! `List` must not be called often: amid an allocation it can make kubelet give one device twice
//! (kubernetes#137534). Whoever calls decides when; here is only how.

pub mod changed;
pub mod checkpoint;
mod messages;

use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::{Device, DeviceId, Listed};
use http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use messages::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, ContainerDevices, ListPodResourcesRequest,
    ListPodResourcesResponse,
};

/// Larger is no answer of a kubelet: it sends at most this much itself.
const LARGEST_ANSWER: usize = 16 << 20;

/// Where kubelet answers, and how long it may take.
#[derive(Clone, Debug)]
pub struct Kubelet {
    /// Its pod-resources socket.
    pub socket: PathBuf,
    /// How long one call may take.
    pub patience: Duration,
}

/// Why kubelet's answer is not known.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    /// There is no socket.
    #[error(
        "there is no socket {}: kubelet does not run, or its --root-dir is another one (--pod-resources-socket)",
        path.display()
    )]
    NoSocket {
        /// Where it should be.
        path: PathBuf,
    },
    /// Nobody answers there.
    #[error("kubelet cannot be reached at {}", path.display())]
    Unreachable {
        /// Where it should be.
        path: PathBuf,
        /// What the connection says.
        #[source]
        source: tonic::transport::Error,
    },
    /// It takes too long.
    #[error("kubelet has not answered {call} within {after:?}")]
    NoAnswer {
        /// What was asked.
        call: &'static str,
        /// How long we waited.
        after: Duration,
    },
    /// It says no, or what cannot be read.
    #[error("kubelet refuses {call}: {}", said.message())]
    Refused {
        /// What was asked.
        call: &'static str,
        /// What it says.
        said: Box<tonic::Status>,
    },
}

/// A connection to kubelet, for the calls of one look.
pub struct Session {
    channel: Channel,
    patience: Duration,
}

impl Kubelet {
    /// Connects. The connection is for one look: at rest there is none.
    ///
    /// # Errors
    /// Kubelet is not there.
    pub async fn connect(&self) -> Result<Session, KubeletError> {
        let Self { socket, patience } = self;
        if !tokio::fs::try_exists(socket).await.unwrap_or(false) {
            return Err(KubeletError::NoSocket { path: socket.clone() });
        }
        let unreachable = |source| KubeletError::Unreachable { path: socket.clone(), source };
        let endpoint = endpoint(socket).map_err(unreachable)?;
        let channel = tokio::time::timeout(*patience, endpoint.connect()).await;
        let channel =
            channel.map_err(|_| KubeletError::NoAnswer { call: "the connection", after: *patience })?;
        Ok(Session { channel: channel.map_err(unreachable)?, patience: *patience })
    }
}

fn endpoint(socket: &Path) -> Result<Endpoint, tonic::transport::Error> {
    Endpoint::from_shared(format!("unix:{}", socket.display()))
}

impl Session {
    /// The devices that kubelet has and calls healthy: those that it can give
    /// to a pod, and those that a pod has.
    ///
    /// # Errors
    /// There is no answer that can be read.
    pub async fn healthy(&self) -> Result<Vec<Device>, KubeletError> {
        let answer: AllocatableResourcesResponse =
            self.call("GetAllocatableResources", AllocatableResourcesRequest {}).await?;
        Ok(devices(answer.devices))
    }

    /// The containers of active pods that have devices, as kubelet lists them.
    ///
    /// # Errors
    /// There is no answer that can be read.
    pub async fn list(&self) -> Result<Vec<Listed>, KubeletError> {
        let answer: ListPodResourcesResponse = self.call("List", ListPodResourcesRequest {}).await?;
        let mut listed = Vec::new();
        for pod in answer.pod_resources {
            let (namespace, name) = (pod.namespace, pod.name);
            for container in pod.containers.into_iter().filter(|container| !container.devices.is_empty()) {
                listed.push(Listed {
                    namespace: namespace.clone(),
                    pod: name.clone(),
                    container: container.name,
                    devices: devices(container.devices),
                });
            }
        }
        Ok(listed)
    }

    async fn call<Q, A>(&self, call: &'static str, question: Q) -> Result<A, KubeletError>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let refused = |said| KubeletError::Refused { call, said: Box::new(said) };
        let path = PathAndQuery::try_from(format!("/v1.PodResourcesLister/{call}"))
            .map_err(|error| refused(tonic::Status::internal(error.to_string())))?;
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(LARGEST_ANSWER);
        let asked = async {
            grpc.ready().await.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
            grpc.unary(tonic::Request::new(question), path, ProstCodec::<Q, A>::default()).await
        };
        match tokio::time::timeout(self.patience, asked).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(said)) => Err(refused(said)),
            Err(_) => Err(KubeletError::NoAnswer { call, after: self.patience }),
        }
    }
}

fn devices(of: Vec<ContainerDevices>) -> Vec<Device> {
    let each = |ContainerDevices { resource_name, device_ids }: ContainerDevices| {
        device_ids.into_iter().map(move |id| Device { resource: resource_name.clone(), id: DeviceId(id) })
    };
    of.into_iter().flat_map(each).collect()
}
