//! What a GPU, or a part of one, has beside multiprocessors.

/// The engines of an instance, beside its multiprocessors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Engines {
    /// Copy engines.
    pub copy: u32,
    /// Decoders.
    pub decoder: u32,
    /// Encoders.
    pub encoder: u32,
    /// JPEG engines.
    pub jpeg: u32,
    /// Optical flow.
    pub ofa: u32,
}
