//! Whether macOS starts a program: checked where it is built, since no Mac is there to try it.
//!
//! The load commands are those of Apple's `mach-o/loader.h`; the signature is laid out as in
//! `cs_blobs.h` of Apple's kernel sources. An unsigned program is killed on Apple silicon, and so is one
//! whose signature was made before the program was stripped.

use object::LittleEndian;
use object::macho::{CPU_TYPE_ARM64, LC_CODE_SIGNATURE, MH_EXECUTE, MachHeader64, PLATFORM_MACOS};
use object::read::macho::{LoadCommandVariant, MachHeader as _};
use sha2::{Digest, Sha256};

/// The oldest macOS on which the programs start. Older ones get no fixes any more, and the linker
/// knows their libraries less well.
pub const OLDEST: (u16, u8) = (13, 0);

/// Libraries that every macOS has, and that `packaging/apple` or the linker itself describes.
const LIBRARIES: [&str; 5] = [
    "/System/Library/Frameworks/CoreFoundation.framework/Versions/A/CoreFoundation",
    "/System/Library/Frameworks/Security.framework/Versions/A/Security",
    "/usr/lib/libSystem.B.dylib",
    "/usr/lib/libcharset.1.dylib",
    "/usr/lib/libiconv.2.dylib",
];

/// Why macOS would not start a program.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// It is no program of this format.
    #[error("this is not a 64-bit program for macOS: {0}")]
    Format(#[from] object::Error),
    /// It is a library or an object file.
    #[error("this is a file of type {0}, not a program (type 2)")]
    NoProgram(u32),
    /// It does not say which macOS it is for.
    #[error("the program does not say which version of macOS it needs")]
    NoVersion,
    /// It is for another of Apple's systems.
    #[error("the program is for platform {0}, not for macOS (platform 1)")]
    Platform(u32),
    /// It asks for a newer macOS than promised.
    #[error("the program needs macOS {}.{}, and {}.{} is promised: build it with MACOSX_DEPLOYMENT_TARGET={}.{}",
        .0, .1, OLDEST.0, OLDEST.1, OLDEST.0, OLDEST.1)]
    TooNew(u16, u8),
    /// It loads what a Mac may not have.
    #[error("the program loads {0}, which not every Mac has")]
    Library(String),
    /// It has no signature and needs one.
    #[error("the program is not signed, and Apple silicon runs nothing that is unsigned")]
    Unsigned,
    /// Its signature cannot be read.
    #[error("the signature of the program breaks off, or is of a kind that is not checked here")]
    Signature,
    /// What was signed is not what is there.
    #[error("the program was changed after it was signed: page {0} of it has another checksum")]
    Changed(usize),
}

/// Whether macOS starts this program.
///
/// # Errors
/// When it would not, with the reason.
pub fn check(program: &[u8]) -> Result<(), Unfit> {
    let header = MachHeader64::<LittleEndian>::parse(program, 0)?;
    let kind = header.filetype(LittleEndian);
    if kind != MH_EXECUTE {
        return Err(Unfit::NoProgram(kind));
    }
    let mut oldest = None;
    let mut signature = None;
    let mut commands = header.load_commands(LittleEndian, program, 0)?;
    while let Some(command) = commands.next()? {
        match command.variant()? {
            LoadCommandVariant::BuildVersion(build) => {
                let platform = build.platform.get(LittleEndian);
                if platform != PLATFORM_MACOS {
                    return Err(Unfit::Platform(platform));
                }
                oldest = Some(build.minos.get(LittleEndian));
            }
            LoadCommandVariant::Dylib(library) => {
                let name = String::from_utf8_lossy(command.string(LittleEndian, library.dylib.name)?);
                if !LIBRARIES.contains(&&*name) {
                    return Err(Unfit::Library(name.into_owned()));
                }
            }
            LoadCommandVariant::LinkeditData(part) if part.cmd.get(LittleEndian) == LC_CODE_SIGNATURE => {
                let (start, length) = (part.dataoff.get(LittleEndian), part.datasize.get(LittleEndian));
                let start = usize::try_from(start).map_err(|_| Unfit::Signature)?;
                let length = usize::try_from(length).map_err(|_| Unfit::Signature)?;
                let end = start.checked_add(length).ok_or(Unfit::Signature)?;
                // What this slice begins with is checked, so what comes before it is there, too.
                signature = Some((start, program.get(start..end).ok_or(Unfit::Signature)?));
            }
            _ => {}
        }
    }
    // X.Y.Z is written as 0xXXXXYYZZ.
    let [high, low, minor, _] = oldest.ok_or(Unfit::NoVersion)?.to_be_bytes();
    let major = u16::from_be_bytes([high, low]);
    if (major, minor) > OLDEST {
        return Err(Unfit::TooNew(major, minor));
    }
    match signature {
        Some((start, signature)) => signed(&program[..start], signature),
        None if header.cputype(LittleEndian) == CPU_TYPE_ARM64 => Err(Unfit::Unsigned),
        None => Ok(()),
    }
}

/// The signatures of a program, the first of which says where each begins.
const MAGIC_OF_SIGNATURES: u32 = 0xfade_0cc0;
/// The one that lists the checksums of pages.
const MAGIC_OF_CHECKSUMS: u32 = 0xfade_0c02;
/// SHA-256, the only kind of checksum that linkers write today.
const SHA_256: (u8, u8) = (32, 2);

/// Whether each page of what comes before the signature has the checksum that was signed. All numbers are big-endian
/// here.
fn signed(content: &[u8], signature: &[u8]) -> Result<(), Unfit> {
    let number = |bytes: &[u8], at: usize| {
        let end = at.checked_add(4)?;
        Some(u32::from_be_bytes(bytes.get(at..end)?.try_into().ok()?))
    };
    let place = |bytes: &[u8], at: usize| usize::try_from(number(bytes, at)?).ok();
    let listed = || {
        let first = (number(signature, 0)? == MAGIC_OF_SIGNATURES).then(|| place(signature, 16))??;
        let list = signature.get(first..)?;
        (number(list, 0)? == MAGIC_OF_CHECKSUMS).then_some(())?;
        let (checksums, pages, length) = (place(list, 16)?, place(list, 28)?, place(list, 32)?);
        let (kind, bits) = ((*list.get(36)?, *list.get(37)?), *list.get(39)?);
        let page = 1_usize.checked_shl(bits.into())?;
        let checksums = list.get(checksums..)?.get(..pages.checked_mul(kind.0.into())?)?;
        let is_whole = length == content.len() && pages == length.div_ceil(page);
        (kind == SHA_256 && is_whole).then_some((page, checksums))
    };
    let (page, checksums) = listed().ok_or(Unfit::Signature)?;
    let differs = |(bytes, checksum): (&[u8], &[u8])| Sha256::digest(bytes)[..] != *checksum;
    match content.chunks(page).zip(checksums.chunks(SHA_256.0.into())).position(differs) {
        Some(page) => Err(Unfit::Changed(page)),
        None => Ok(()),
    }
}
