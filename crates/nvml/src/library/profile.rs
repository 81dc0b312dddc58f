//! GPU instance profiles as the driver describes them, in whichever version of
//! the struct it knows, and where instances of them may be.

#![allow(unsafe_code, reason = "calls of NVML's C interface that nvml-wrapper does not have")]

use std::mem;
use std::os::raw::c_uint;
use std::ptr;

use nvml_wrapper_sys::bindings::{
    NVML_GPU_INSTANCE_PROFILE_CAPS_GFX, NVML_GPU_INSTANCE_PROFILE_CAPS_P2P, nvmlGpuInstancePlacement_t,
    nvmlGpuInstanceProfileInfo_t, nvmlGpuInstanceProfileInfo_v2_t, nvmlGpuInstanceProfileInfo_v3_t,
};

use super::device::Gpu;
use super::engines::Engines;
use super::{function, text};
use crate::code::Code;
use crate::error::{Error, Result, check};

/// Profiles are numbered from 0 until the driver answers that there is no such
/// number. The header at hand ends at 17; newer drivers have more, and no
/// driver is asked for ever.
const MOST_PROFILES: u32 = 64;

/// The same for entries of one list: no GPU has nearly as many places.
const MOST_ENTRIES: u32 = 256;

/// Start and size: in memory units for a GPU instance, in compute slices of
/// its GPU instance for a compute instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Placement {
    /// Where it starts.
    pub start: u32,
    /// How much it spans.
    pub size: u32,
}

/// A GPU instance profile of one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuProfile {
    /// Its number in NVML's enumeration (`NVML_GPU_INSTANCE_PROFILE_*`).
    pub number: u32,
    /// Its id, which nvidia-smi shows and every other call takes.
    pub id: u32,
    /// Its name, without `MIG`, where the driver gives one; see
    /// [`profile_name`] for drivers that do not.
    pub name: Option<String>,
    /// Compute slices.
    pub slices: u32,
    /// How many at most on one GPU.
    pub max_instances: u32,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Its engines.
    pub engines: Engines,
    /// Memory of an instance, in MiB.
    pub memory_mib: u64,
    /// Whether instances can reach those of other GPUs.
    pub peer_to_peer: bool,
    /// Whether instances do graphics, where the driver says so.
    pub graphics: Option<bool>,
}

impl Gpu<'_> {
    /// All GPU instance profiles that this GPU has, by their numbers. Empty on
    /// a GPU without MIG, and with old drivers while MIG is off.
    ///
    /// # Errors
    /// The library's.
    pub fn profiles(&self) -> Result<Vec<GpuProfile>> {
        let mut profiles = Vec::new();
        for number in 0..MOST_PROFILES {
            match self.profile(number) {
                Ok(profile) => profiles.push(profile),
                // A driver from before MIG.
                Err(Error::NoFunction { .. }) => break,
                Err(error) => match error.code() {
                    Some(Code::NotSupported) => {}
                    Some(Code::InvalidArgument) => break,
                    _ => return Err(error),
                },
            }
        }
        Ok(profiles)
    }

    /// A profile, by its number in NVML's enumeration (not by its id). The
    /// newest struct that the driver understands is used.
    ///
    /// # Errors
    /// [`Code::NotSupported`] if this GPU has no such profile,
    /// [`Code::InvalidArgument`] past the last number.
    pub fn profile(&self, number: u32) -> Result<GpuProfile> {
        newest_of([&|| self.profile_v3(number), &|| self.profile_v2(number), &|| self.profile_v1(number)])
    }

    /// A profile, by its id.
    ///
    /// # Errors
    /// [`Code::NotFound`] if this GPU has none with this id.
    pub fn profile_by_id(&self, id: u32) -> Result<GpuProfile> {
        let missing = || Error::Failed { call: "nvmlDeviceGetGpuInstanceProfileInfo", code: Code::NotFound };
        self.profiles()?.into_iter().find(|profile| profile.id == id).ok_or_else(missing)
    }

    fn profile_v3(&self, number: u32) -> Result<GpuProfile> {
        const CALL: &str = "nvmlDeviceGetGpuInstanceProfileInfoV";
        let call = function(CALL, &self.sys().nvmlDeviceGetGpuInstanceProfileInfoV)?;
        // SAFETY: the struct is plain numbers and characters, for which zeros are a value.
        let mut info: nvmlGpuInstanceProfileInfo_v3_t = unsafe { mem::zeroed() };
        info.version = version::<nvmlGpuInstanceProfileInfo_v3_t>(3);
        let of_any_version: *mut nvmlGpuInstanceProfileInfo_v2_t = (&raw mut info).cast();
        // SAFETY: the handle is of this library, which is loaded; the library writes as much as the
        // version in the struct says, which is the size of the struct that is there.
        check(CALL, unsafe { call(self.handle(), number, of_any_version) })?;
        Ok(GpuProfile {
            number,
            id: info.id,
            name: named(text::read_text(CALL, &info.name)?),
            slices: info.sliceCount,
            max_instances: info.instanceCount,
            multiprocessors: info.multiprocessorCount,
            engines: Engines {
                copy: info.copyEngineCount,
                decoder: info.decoderCount,
                encoder: info.encoderCount,
                jpeg: info.jpegCount,
                ofa: info.ofaCount,
            },
            memory_mib: info.memorySizeMB,
            peer_to_peer: info.capabilities & NVML_GPU_INSTANCE_PROFILE_CAPS_P2P != 0,
            graphics: Some(info.capabilities & NVML_GPU_INSTANCE_PROFILE_CAPS_GFX != 0),
        })
    }

    fn profile_v2(&self, number: u32) -> Result<GpuProfile> {
        const CALL: &str = "nvmlDeviceGetGpuInstanceProfileInfoV";
        let call = function(CALL, &self.sys().nvmlDeviceGetGpuInstanceProfileInfoV)?;
        // SAFETY: the struct is plain numbers and characters, for which zeros are a value.
        let mut info: nvmlGpuInstanceProfileInfo_v2_t = unsafe { mem::zeroed() };
        info.version = version::<nvmlGpuInstanceProfileInfo_v2_t>(2);
        // SAFETY: the handle is of this library, which is loaded; the struct is of the version that it names.
        check(CALL, unsafe { call(self.handle(), number, &raw mut info) })?;
        Ok(GpuProfile {
            number,
            id: info.id,
            name: named(text::read_text(CALL, &info.name)?),
            slices: info.sliceCount,
            max_instances: info.instanceCount,
            multiprocessors: info.multiprocessorCount,
            engines: Engines {
                copy: info.copyEngineCount,
                decoder: info.decoderCount,
                encoder: info.encoderCount,
                jpeg: info.jpegCount,
                ofa: info.ofaCount,
            },
            memory_mib: info.memorySizeMB,
            peer_to_peer: info.isP2pSupported != 0,
            graphics: None,
        })
    }

    fn profile_v1(&self, number: u32) -> Result<GpuProfile> {
        const CALL: &str = "nvmlDeviceGetGpuInstanceProfileInfo";
        let call = function(CALL, &self.sys().nvmlDeviceGetGpuInstanceProfileInfo)?;
        // SAFETY: the struct is plain numbers, for which zeros are a value.
        let mut info: nvmlGpuInstanceProfileInfo_t = unsafe { mem::zeroed() };
        // SAFETY: the handle is of this library, which is loaded; this struct has one version only.
        check(CALL, unsafe { call(self.handle(), number, &raw mut info) })?;
        Ok(GpuProfile {
            number,
            id: info.id,
            name: None,
            slices: info.sliceCount,
            max_instances: info.instanceCount,
            multiprocessors: info.multiprocessorCount,
            engines: Engines {
                copy: info.copyEngineCount,
                decoder: info.decoderCount,
                encoder: info.encoderCount,
                jpeg: info.jpegCount,
                ofa: info.ofaCount,
            },
            memory_mib: info.memorySizeMB,
            peer_to_peer: info.isP2pSupported != 0,
            graphics: None,
        })
    }

    /// Where instances of a profile may be, whatever is there now.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] for an id that this GPU does not have.
    pub fn possible_placements(&self, profile_id: u32) -> Result<Vec<Placement>> {
        const CALL: &str = "nvmlDeviceGetGpuInstancePossiblePlacements_v2";
        let call = function(CALL, &self.sys().nvmlDeviceGetGpuInstancePossiblePlacements_v2)?;
        let mut count: c_uint = 0;
        // SAFETY: the handle is of this library, which is loaded; without a buffer the call only counts.
        check(CALL, unsafe { call(self.handle(), profile_id, ptr::null_mut(), &raw mut count) })?;
        let room = text::within(CALL, count, MOST_ENTRIES as usize)?;
        let mut placements = vec![nvmlGpuInstancePlacement_t { start: 0, size: 0 }; room];
        if room > 0 {
            // SAFETY: as above; the buffer has as many entries as the count says.
            check(CALL, unsafe { call(self.handle(), profile_id, placements.as_mut_ptr(), &raw mut count) })?;
        }
        placements.truncate(text::within(CALL, count, room)?);
        Ok(placements.iter().map(|p| Placement { start: p.start, size: p.size }).collect())
    }

    /// How many more instances of a profile fit now: the free ones of
    /// `nvidia-smi mig -lgip`.
    ///
    /// # Errors
    /// [`Code::NotSupported`] while MIG is off.
    pub fn remaining_capacity(&self, profile_id: u32) -> Result<u32> {
        const CALL: &str = "nvmlDeviceGetGpuInstanceRemainingCapacity";
        let call = function(CALL, &self.sys().nvmlDeviceGetGpuInstanceRemainingCapacity)?;
        let mut count: c_uint = 0;
        // SAFETY: the handle is of this library, which is loaded; the count is ours.
        check(CALL, unsafe { call(self.handle(), profile_id, &raw mut count) })?;
        Ok(count)
    }
}

/// What a struct with versions says in its first field.
#[expect(clippy::cast_possible_truncation, reason = "structs are smaller than 16 MiB")]
pub(super) const fn version<T>(number: u32) -> u32 {
    mem::size_of::<T>() as u32 | (number << 24)
}

/// The answer in the newest struct that the driver understands. A driver that
/// does not know a version says so in several ways, one of which is that of an
/// argument that is wrong in itself: then the oldest, which every driver
/// knows, has the last word.
pub(super) fn newest_of<T>(versions: [&dyn Fn() -> Result<T>; 3]) -> Result<T> {
    let [newest, older, oldest] = versions;
    for ask in [newest, older] {
        let answer = ask();
        let unknown = match &answer {
            Ok(_) => false,
            Err(Error::NoFunction { .. }) => true,
            Err(error) => matches!(
                error.code(),
                Some(
                    Code::InvalidArgument
                        | Code::ArgumentVersionMismatch
                        | Code::FunctionNotFound
                        | Code::NotSupported
                )
            ),
        };
        if !unknown {
            return answer;
        }
    }
    oldest()
}

/// The name as nvidia-smi's tables have it behind `MIG`.
pub(super) fn named(name: String) -> Option<String> {
    let name = name.strip_prefix("MIG ").unwrap_or(&name).trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// The name of a profile by the rule that NVIDIA's own programs use, for
/// drivers that give none: gigabytes are the share of the whole memory in
/// eighths, rounded up, of the whole memory in whole GiB; the suffix follows
/// from the number.
#[must_use]
pub fn profile_name(number: u32, slices: u32, memory_mib: u64, total_mib: u64) -> String {
    let eighths = (memory_mib * 8).div_ceil(total_mib.max(1));
    let gigabytes = (eighths * total_mib.div_ceil(1024) + 4) / 8;
    let suffix = match number {
        7 | 8 => "+me",
        10..=12 | 17 => "+gfx",
        13 | 14 => "-me",
        15 | 16 => "+me.all",
        _ => "",
    };
    format!("{slices}g.{gigabytes}gb{suffix}")
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_struct_names_its_length_and_version_as_the_header_does() {
        // Eleven numbers, a gap, a long number, 96 characters; and ten, a long number, 96 characters,
        // capabilities, a gap: 152 bytes either way.
        assert_eq!(version::<nvmlGpuInstanceProfileInfo_v2_t>(2), 0x0200_0098);
        assert_eq!(version::<nvmlGpuInstanceProfileInfo_v3_t>(3), 0x0300_0098);
    }

    #[track_caller]
    fn asked(answers: [std::result::Result<u32, Code>; 3]) -> (Result<u32>, Vec<usize>) {
        let calls = RefCell::new(Vec::new());
        let ask = |i: usize| {
            calls.borrow_mut().push(i);
            answers[i].map_err(|code| Error::Failed { call: "f", code })
        };
        let answer = newest_of([&|| ask(0), &|| ask(1), &|| ask(2)]);
        (answer, calls.into_inner())
    }

    #[test]
    fn a_driver_is_asked_in_the_newest_version_that_it_knows() {
        let (unknown, other) = (Err(Code::ArgumentVersionMismatch), Err(Code::InvalidArgument));
        assert_eq!(asked([Ok(3), Ok(2), Ok(1)]), (Ok(3), vec![0]));
        assert_eq!(asked([unknown, Ok(2), Ok(1)]), (Ok(2), vec![0, 1]));
        assert_eq!(asked([other, other, Ok(1)]), (Ok(1), vec![0, 1, 2]));
        let (answer, calls) = asked([Err(Code::GpuIsLost), Ok(2), Ok(1)]);
        assert_eq!((answer.unwrap_err().code(), calls), (Some(Code::GpuIsLost), vec![0]));
        let (answer, _) = asked([other, other, other]);
        assert_eq!(answer.unwrap_err().code(), Some(Code::InvalidArgument));
    }

    #[test]
    fn names_follow_from_sizes_where_the_driver_gives_none() {
        // Sizes of real cards: A100-40GB, H100-80GB, A30, RTX PRO 6000.
        for (number, slices, memory, total, name) in [
            (0, 1, 4864, 40960, "1g.5gb"),
            (7, 1, 4864, 40960, "1g.5gb+me"),
            (9, 1, 9856, 40960, "1g.10gb"),
            (2, 3, 19968, 40960, "3g.20gb"),
            (4, 7, 40192, 40960, "7g.40gb"),
            (0, 1, 9984, 81559, "1g.10gb"),
            (9, 1, 20096, 81559, "1g.20gb"),
            (0, 1, 5952, 24576, "1g.6gb"),
            (3, 4, 24192, 24576, "4g.24gb"),
        ] {
            assert_eq!(profile_name(number, slices, memory, total), name);
        }
    }

    #[test]
    fn the_name_is_without_the_word_that_tables_put_before_it() {
        assert_eq!(named("MIG 1g.10gb+me".to_owned()), Some("1g.10gb+me".to_owned()));
        assert_eq!(named("1g.10gb".to_owned()), Some("1g.10gb".to_owned()));
        assert_eq!(named(String::new()), None);
    }
}
