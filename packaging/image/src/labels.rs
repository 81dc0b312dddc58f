//! The labels of an image: those of the OCI, those that Red Hat's certification requires, and those that
//! OpenShift shows.

use std::collections::BTreeMap;

/// One of the images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Product {
    /// The operator, and the command that its chart's hook calls.
    Operator,
    /// Simulated GPUs: `slicewright-sim`, NVML and nvidia-smi.
    Simulator,
    /// What `oc adm must-gather` runs: the command, and a shell.
    MustGather,
    /// The agent of a GPU node.
    Agent,
}

impl Product {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Operator, Self::Simulator, Self::MustGather, Self::Agent];

    /// Its name on the command line and of its files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Simulator => "simulator",
            Self::MustGather => "must-gather",
            Self::Agent => "agent",
        }
    }

    /// What it is called where nobody said otherwise. `localhost` is nobody's registry: an image that was loaded is
    /// found under it, and one that was not is looked for nowhere.
    #[must_use]
    pub fn loaded(self) -> String {
        format!("localhost/{}", self.repository())
    }

    /// The repository that the chart names.
    #[must_use]
    pub fn repository(self) -> &'static str {
        match self {
            Self::Operator => "slicewright/slicewright",
            Self::Simulator => "slicewright/simulator",
            Self::MustGather => "slicewright/must-gather",
            Self::Agent => "slicewright/agent",
        }
    }

    /// What a container of it starts.
    #[must_use]
    pub fn entrypoint(self) -> &'static str {
        match self {
            Self::Operator => "/usr/bin/slicewright-operator",
            Self::Simulator => "/usr/bin/slicewright-sim",
            Self::MustGather => "/usr/bin/gather",
            Self::Agent => "/usr/bin/slicewright-agent",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Operator => "Slicewright",
            Self::Simulator => "Slicewright simulator",
            Self::MustGather => "Slicewright must-gather",
            Self::Agent => "Slicewright node agent",
        }
    }

    fn summary(self) -> &'static str {
        match self {
            Self::Operator => "Cuts the GPUs of a cluster into MIG slices as its users ask for them",
            Self::Simulator => "Simulated GPUs with MIG for clusters and machines without any",
            Self::MustGather => {
                "Collects what the maintainers of Slicewright need to find out what went wrong"
            }
            Self::Agent => {
                "Reports the MIG slices of one GPU node and who holds them, and changes single ones"
            }
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Operator => {
                "Plans the MIG layout of a GPU fleet from policies and from what people ask for, and brings the \
                 nodes there without taking a slice from a running pod."
            }
            Self::Simulator => {
                "A libnvidia-ml.so.1 and an nvidia-smi over simulated GPUs, and virtual GPU nodes on any API \
                 server: for tests and for trying things out, never for production."
            }
            Self::MustGather => {
                "The fleet as it was, the plan for it, statuses, and the logs of the operator and of MIG manager; no \
                 Secrets."
            }
            Self::Agent => {
                "Runs on each GPU node: reads the slices from NVIDIA's driver and their holders from kubelet, reports both \
                 to the operator, and changes single slices beside running pods where it is told to."
            }
        }
    }
}

/// Whoever publishes the images.
pub const VENDOR: &str = "Slicewright";

/// The labels that are the same for every build of a product.
#[must_use]
pub fn fixed(product: Product) -> BTreeMap<&'static str, &'static str> {
    BTreeMap::from([
        ("name", product.repository()),
        ("vendor", VENDOR),
        ("release", "1"),
        ("summary", product.summary()),
        ("description", product.description()),
        ("maintainer", "The Slicewright authors"),
        ("io.k8s.display-name", product.title()),
        ("io.k8s.description", product.description()),
        ("io.openshift.tags", "gpu,mig,nvidia,openshift-ai"),
        ("org.opencontainers.image.title", product.title()),
        ("org.opencontainers.image.description", product.description()),
        ("org.opencontainers.image.vendor", VENDOR),
        ("org.opencontainers.image.licenses", "Apache-2.0"),
    ])
}

/// What differs from build to build.
#[derive(Clone, Debug)]
pub struct Build<'a> {
    /// Of the product.
    pub version: &'a str,
    /// Where the sources are.
    pub source: &'a str,
    /// The commit, where it is known.
    pub revision: Option<&'a str>,
    /// As RFC 3339.
    pub created: &'a str,
}

/// All labels of an image.
#[must_use]
pub fn labels(product: Product, build: &Build<'_>) -> BTreeMap<String, String> {
    let Build { version, source, revision, created } = build;
    let known = [
        ("version", Some(*version)),
        ("url", Some(*source)),
        ("org.opencontainers.image.version", Some(*version)),
        ("org.opencontainers.image.url", Some(*source)),
        ("org.opencontainers.image.source", Some(*source)),
        ("org.opencontainers.image.revision", *revision),
        ("org.opencontainers.image.created", Some(*created)),
    ];
    let known = known.into_iter().filter_map(|(name, value)| Some((name, value?)));
    fixed(product).into_iter().chain(known).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
