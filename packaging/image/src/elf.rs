//! A program's requirements on its machine, and the addition of a section to a linked program.

use object::elf::{DT_NEEDED, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, ReadRef};

/// Why a file is not a program that can be put into an image.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read as one.
    #[error("it is not a 64-bit ELF file")]
    Format(#[from] object::read::Error),
    /// Its table of sections is missing or broken.
    #[error("its table of sections cannot be read")]
    Sections,
}

/// What a program asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The loader that starts it; a static program has none.
    pub loader: Option<String>,
    /// The shared libraries that it names, in its order.
    pub libraries: Vec<String>,
}

/// What a program or a shared library asks for.
///
/// # Errors
/// When it is neither.
pub fn needs(file: &[u8]) -> Result<Needs, Error> {
    let header = FileHeader64::<Endianness>::parse(file)?;
    let endian = header.endian()?;
    let mut needs = Needs { loader: None, libraries: Vec::new() };
    for segment in header.program_headers(endian, file)? {
        if segment.p_type(endian) == PT_INTERP {
            let path = segment.data(endian, file).map_err(|()| Error::Sections)?;
            let path = path.strip_suffix(&[0]).unwrap_or(path);
            needs.loader = Some(String::from_utf8_lossy(path).into_owned());
        }
    }
    let sections = header.sections(endian, file)?;
    if let Some((dynamic, link)) = sections.dynamic(endian, file)? {
        let strings = sections.strings(endian, file, link)?;
        for entry in dynamic {
            if entry.tag(endian) == DT_NEEDED {
                let name = entry.string(endian, strings)?;
                needs.libraries.push(String::from_utf8_lossy(name).into_owned());
            }
        }
    }
    Ok(needs)
}

/// Where the fields of a 64-bit ELF header are: the table of sections, the
/// size of one entry, their number, and the one with the names.
const TABLE: usize = 0x28;
const ENTRY_SIZE: usize = 0x3A;
const ENTRIES: usize = 0x3C;
const NAMES: usize = 0x3E;
const ENTRY: usize = 64;

/// Adds a section that is not loaded. It goes behind the end of the file, and
/// so does a new table of sections: not one byte that the program runs moves.
///
/// # Errors
/// When the file is not a little-endian 64-bit ELF file with a table of
/// sections.
pub fn with_section(file: &[u8], name: &str, content: &[u8]) -> Result<Vec<u8>, Error> {
    let endian = FileHeader64::<Endianness>::parse(file)?.endian()?;
    let small = |at: usize| file.read_at::<[u8; 2]>(at as u64).map(|bytes| u16::from_le_bytes(*bytes).into());
    let field = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.and_then(|bytes| usize::try_from(u64::from_le_bytes(bytes)).ok()).ok_or(Error::Sections)
    };
    let start = field(file, TABLE)?;
    let size: usize = small(ENTRY_SIZE).map_err(|()| Error::Sections)?;
    let count: usize = small(ENTRIES).map_err(|()| Error::Sections)?;
    let names: usize = small(NAMES).map_err(|()| Error::Sections)?;
    let little = endian == Endianness::Little;
    if !little || size != ENTRY || names >= count || count >= usize::from(u16::MAX) - 256 {
        return Err(Error::Sections);
    }
    let mut table = file.get(start..start + count * ENTRY).ok_or(Error::Sections)?.to_vec();
    let of_names = names * ENTRY;
    let (old, long) = (field(&table, of_names + 24)?, field(&table, of_names + 32)?);
    let mut strings = file.get(old..old + long).ok_or(Error::Sections)?.to_vec();
    let name_at = u32::try_from(strings.len()).map_err(|_| Error::Sections)?;
    strings.extend_from_slice(name.as_bytes());
    strings.push(0);

    let mut whole = file.to_vec();
    let mut append = |bytes: &[u8]| {
        whole.resize(whole.len().next_multiple_of(8), 0);
        let at = whole.len() as u64;
        whole.extend_from_slice(bytes);
        at
    };
    let content_at = append(content);
    let strings_at = append(&strings);
    table[of_names + 24..of_names + 32].copy_from_slice(&strings_at.to_le_bytes());
    table[of_names + 32..of_names + 40].copy_from_slice(&(strings.len() as u64).to_le_bytes());
    let mut section = [0; ENTRY];
    section[0..4].copy_from_slice(&name_at.to_le_bytes());
    section[4..8].copy_from_slice(&object::elf::SHT_PROGBITS.to_le_bytes());
    section[24..32].copy_from_slice(&content_at.to_le_bytes());
    section[32..40].copy_from_slice(&(content.len() as u64).to_le_bytes());
    section[48..56].copy_from_slice(&1_u64.to_le_bytes());
    table.extend_from_slice(&section);
    let table_at = append(&table);
    whole[TABLE..TABLE + 8].copy_from_slice(&table_at.to_le_bytes());
    let count = u16::try_from(count + 1).map_err(|_| Error::Sections)?;
    whole[ENTRIES..ENTRIES + 2].copy_from_slice(&count.to_le_bytes());
    Ok(whole)
}

/// The content of a section by its name.
///
/// # Errors
/// When the file is not an ELF file.
pub fn section<'a>(file: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, Error> {
    let header = FileHeader64::<Endianness>::parse(file)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, file)?;
    let Some((_, section)) = sections.section_by_name(endian, name.as_bytes()) else { return Ok(None) };
    Ok(Some(section.data(endian, file)?))
}
