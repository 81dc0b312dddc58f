//! The content of a picture of the fleet: the state of the hardware, and the holders of slices. The program
//! that prints the transcript draws it.

use mig::ProfileName;
use serde::Serialize;

/// The fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Picture {
    /// The nodes, by name.
    pub nodes: Vec<NodePicture>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodePicture {
    /// Its name.
    pub name: String,
    /// How it is: `cordoned`, where it is on its way, and so on; may be empty.
    pub state: String,
    /// Its GPUs, by index.
    pub gpus: Vec<GpuPicture>,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GpuPicture {
    /// Its index.
    pub index: u16,
    /// Its model.
    pub model: String,
    /// Its memory units, which slices are measured in; 0 when it knows no MIG.
    pub units: u8,
    /// Its slices, by start; none when MIG is off.
    pub slices: Option<Vec<SlicePicture>>,
    /// Who holds the GPU as a whole.
    pub holder: Option<String>,
}

/// One slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlicePicture {
    /// Its profile.
    pub profile: ProfileName,
    /// Where it starts, in memory units.
    pub start: u8,
    /// How many memory units it spans.
    pub size: u8,
    /// Who holds it.
    pub holder: Option<String>,
    /// Whether a process has it open.
    pub open: bool,
}
