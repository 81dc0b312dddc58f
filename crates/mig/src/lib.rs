//! The rules of MIG: which models exist, which profiles they have, where a slice may start, which slices
//! fit one GPU together, and where the driver puts a slice if no placement is given.
//!
//! Pure: no I/O, no clock, no async. The tables are data (`data/*.yaml`),
//! embedded in the binary and checked when they are read.
//!
//! The terms: a *profile* is a kind of slice (`1g.10gb`), a *placement* is a profile at a start, a *layout*
//! is a set of placements on one GPU.

pub mod catalog;
pub mod driver;
mod extensions;
pub mod fit;
pub mod geometry;
pub mod index;
pub mod instance_id;
pub mod lattice;
pub mod layout;
pub mod model;
pub mod name;
pub mod nearest;
pub mod reference;
pub mod resource;
pub mod sharing;
mod simulatable;

pub use catalog::{Catalog, CatalogError, Product, UnknownModel};
pub use driver::{creation_order, default_order, default_placement, remaining};
pub use fit::{Fit, NoFit, fit, fit_beside};
pub use geometry::{Geometry, GeometryError, ProfileSpec};
pub use index::{PlacementIndex, ProfileIndex};
pub use instance_id::{Labelling, instance_id, instance_span};
pub use lattice::{Lattice, MultisetIndex, StateIndex, TooManyStates};
pub use layout::{Counts, Layout, LayoutError};
pub use model::{
    Architecture, Engines, Field, Model, Multiprocessors, Profile, Provenance, UnknownProfile, Variant,
};
pub use name::{Attribute, NameError, ProfileName};
pub use resource::GpuResource;
pub use simulatable::NotSimulatable;
