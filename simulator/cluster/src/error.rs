//! Why a simulated cluster cannot be set up, or why a command fails.

use crate::fleet::FleetError;
use operands::faults::FaultError;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The fleet is not possible.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// The API server refused, or is not there.
    #[error("failed to {doing}")]
    Call {
        /// What was tried.
        doing: String,
        /// What came back.
        #[source]
        source: Box<kube::Error>,
    },
    /// A CRD that we brought is not served.
    #[error("the CRD `{name}` was created and is not served after 30 s; look at its conditions")]
    NotServed {
        /// The CRD.
        name: String,
    },
    /// A node of this name is simulated already.
    #[error("there is a simulated node `{node}` already")]
    NodeExists {
        /// Its name.
        node: String,
    },
    /// No such node.
    #[error("there is no simulated node `{node}`; there are {}", known.join(", "))]
    NoNode {
        /// The name that was given.
        node: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// Programs cannot have its GPUs.
    #[error("the GPUs of the simulated node `{node}` cannot be shared with programs")]
    NotShared {
        /// The node.
        node: String,
        /// Why not.
        #[source]
        source: store::StoreError,
    },
    /// A fault that is not understood.
    #[error(transparent)]
    NodeFault(#[from] FaultError),
}

impl Error {
    pub(crate) fn call(doing: &str, source: kube::Error) -> Self {
        Self::Call { doing: doing.to_owned(), source: Box::new(source) }
    }
}

/// Whether the API server answered with this status.
pub(crate) fn is(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}
