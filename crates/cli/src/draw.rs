//! Pictures of GPUs for the terminal: one line for each GPU, its memory units from left to right, every
//! slice with its name.
//!
//! ```text
//! │1g.10gb▓│+1g.10gb│2g.20gb          │3g.40gb▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓│
//! ```
//!
//! The state of a slice (idle, in use, new, to be destroyed) is visible without colour too. All pictures
//! are pure: the caller decides whether there is colour.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use mig::{Geometry, Layout, PlacementIndex, ProfileName};
use serde::Serialize;

/// Whether pictures have colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// Characters only.
    #[default]
    Never,
    /// ANSI colours.
    Always,
}

impl Colour {
    /// The text in a style, if there is colour.
    #[must_use]
    pub fn paint(self, style: Style, text: &str) -> String {
        match self {
            Self::Never => text.to_owned(),
            Self::Always => format!("{style}{text}{style:#}"),
        }
    }
}

/// What is to be seen about a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Mark {
    /// It is there, and nobody holds it: blank.
    #[default]
    Idle,
    /// A pod holds it: dark.
    InUse,
    /// A pod may hold it: half dark.
    MaybeInUse,
    /// It will be created: `+` before its name.
    Created,
    /// It will be destroyed: `-` before its name.
    Destroyed,
}

impl Mark {
    /// All of them, in the order of the legend.
    pub(crate) const ALL: [Self; 5] =
        [Self::Idle, Self::InUse, Self::MaybeInUse, Self::Created, Self::Destroyed];

    const fn fill(self) -> char {
        match self {
            Self::InUse => '▓',
            Self::MaybeInUse => '▒',
            Self::Idle | Self::Created | Self::Destroyed => ' ',
        }
    }

    const fn prefix(self) -> &'static str {
        match self {
            Self::Created => "+",
            Self::Destroyed => "-",
            Self::Idle | Self::InUse | Self::MaybeInUse => "",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Idle => Style::new(),
            Self::InUse => AnsiColor::Blue.on_default().bold(),
            Self::MaybeInUse => AnsiColor::Blue.on_default(),
            Self::Created => AnsiColor::Green.on_default().bold(),
            Self::Destroyed => AnsiColor::Red.on_default(),
        }
    }

    /// As the legend says it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::InUse => "in use",
            Self::MaybeInUse => "may be in use",
            Self::Created => "created",
            Self::Destroyed => "destroyed",
        }
    }
}

/// One slice in a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Slice {
    /// Its profile.
    pub name: ProfileName,
    /// The memory unit where it starts.
    pub start: u8,
    /// The memory units that it takes.
    pub size: u8,
    /// What is to be seen about it.
    pub mark: Mark,
}

/// The columns between two bars of the grid, all units together, that fit a
/// terminal of 80 with a margin, and divide by 4, 8 and 12.
pub const WIDTH: usize = 72;

/// The columns of one memory unit, its left border included.
fn unit_width(memory: u8) -> usize {
    (WIDTH / usize::from(memory.max(1))).max(2)
}

/// One GPU of `memory` units with these slices, as one line without its end.
/// Free units are dotted. What is off the grid is left out; where slices
/// overlap, the one that starts later is seen.
#[must_use]
pub fn gpu(memory: u8, slices: &[Slice], colour: Colour) -> String {
    let width = unit_width(memory);
    let mut slices = slices.to_vec();
    slices.sort_by_key(|slice| slice.start);
    let free_style = Style::new().dimmed();
    let mut line = String::new();
    let mut unit = 0;
    while unit < memory {
        let slice = slices.iter().rfind(|slice| slice.start == unit);
        // A picture of a slice ends where the next begins or the grid ends.
        let next = slices.iter().map(|slice| slice.start).find(|start| *start > unit).unwrap_or(memory);
        let end = slice.map_or(unit + 1, |slice| unit.saturating_add(slice.size.max(1)));
        let end = end.min(next).min(memory);
        let columns = usize::from(end - unit) * width - 1;
        line.push('│');
        match slice {
            Some(slice) => line.push_str(&colour.paint(slice.mark.style(), &cell(slice, columns))),
            None => line.push_str(&colour.paint(free_style, &"·".repeat(columns))),
        }
        unit = end;
    }
    line.push('│');
    line
}

/// The inside of a slice: the longest form of its name that has room, filled.
fn cell(slice: &Slice, columns: usize) -> String {
    let name = slice.name.to_string();
    let short = name.replacen(&format!(".{}gb", slice.name.memory_gb), "", 1);
    let prefix = slice.mark.prefix();
    let room = columns.saturating_sub(prefix.len());
    let label = if name.len() <= room { name } else { short };
    let mut cell: String = prefix.chars().chain(label.chars()).take(columns).collect();
    let filled = cell.chars().count();
    cell.extend(std::iter::repeat_n(slice.mark.fill(), columns - filled));
    cell
}

/// A layout of a geometry, each slice with the mark that `mark` gives it.
#[must_use]
pub fn layout(
    geometry: &Geometry,
    layout: Layout,
    mark: impl Fn(PlacementIndex) -> Mark,
    colour: Colour,
) -> String {
    let slices: Vec<Slice> =
        layout.iter().map(|placement| slice(geometry, placement, mark(placement))).collect();
    gpu(geometry.memory(), &slices, colour)
}

/// One placement of a geometry as a slice in a picture.
#[must_use]
pub fn slice(geometry: &Geometry, placement: PlacementIndex, mark: Mark) -> Slice {
    let spec = geometry.profile(geometry.profile_of(placement));
    Slice { name: spec.name, start: geometry.start_of(placement), size: spec.size, mark }
}

/// The numbers of the memory units, to stand above a picture.
#[must_use]
pub fn ruler(memory: u8, colour: Colour) -> String {
    let width = unit_width(memory);
    let mut line = String::from(" ");
    for unit in 0..memory {
        let _ = write!(line, "{unit:<width$}");
    }
    colour.paint(Style::new().dimmed(), line.trim_end())
}

/// What the marks mean, as one line.
#[must_use]
pub fn legend(colour: Colour) -> String {
    let sample = |mark: Mark| {
        let text = format!("{}{}", mark.prefix(), mark.fill().to_string().repeat(2));
        colour.paint(mark.style(), text.trim_end())
    };
    let marks = Mark::ALL.iter().filter(|mark| **mark != Mark::Idle);
    let marks: Vec<String> = marks.map(|mark| format!("{} {}", sample(*mark), mark.word())).collect();
    format!("{}   {} no slice", marks.join("   "), colour.paint(Style::new().dimmed(), "··"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_slice(name: &str, start: u8, size: u8, mark: Mark) -> Slice {
        Slice { name: name.parse().unwrap(), start, size, mark }
    }

    #[track_caller]
    fn check(memory: u8, slices: &[Slice], expect: &str) {
        let line = gpu(memory, slices, Colour::Never);
        assert_eq!(line, expect);
        assert_eq!(line.chars().count(), WIDTH + 1);
    }

    #[test]
    fn slices_are_as_wide_as_their_memory() {
        check(
            8,
            &[
                a_slice("3g.40gb", 4, 4, Mark::Created),
                a_slice("1g.10gb", 0, 1, Mark::InUse),
                a_slice("2g.20gb", 2, 2, Mark::MaybeInUse),
            ],
            "│1g.10gb▓│········│2g.20gb▒▒▒▒▒▒▒▒▒▒│+3g.40gb                           │",
        );
    }

    #[test]
    fn other_grids_are_as_wide() {
        check(
            4,
            &[a_slice("2g.12gb+me", 0, 2, Mark::Destroyed)],
            "│-2g.12gb+me                        │·················│·················│",
        );
        check(
            12,
            &[a_slice("1g.24gb+me.all", 9, 3, Mark::Idle)],
            "│·····│·····│·····│·····│·····│·····│·····│·····│·····│1g.24gb+me.all   │",
        );
    }

    #[test]
    fn a_name_that_has_no_room_loses_its_memory() {
        let line = gpu(8, &[a_slice("1g.10gb+me", 6, 1, Mark::InUse)], Colour::Never);
        assert!(line.contains("│1g+me▓▓▓│"), "{line}");
    }

    #[test]
    fn nonsense_is_drawn_as_far_as_it_goes() {
        let slices = [a_slice("7g.80gb", 0, 200, Mark::Idle), a_slice("3g.40gb", 6, 4, Mark::Idle)];
        check(8, &slices, "│7g.80gb                                              │3g.40gb          │");
        assert_eq!(gpu(0, &slices, Colour::Never), "│");
    }

    #[test]
    fn colours_change_nothing_but_colours() {
        let slices = [a_slice("1g.10gb", 0, 1, Mark::InUse), a_slice("4g.40gb", 4, 4, Mark::Destroyed)];
        let coloured = gpu(8, &slices, Colour::Always);
        assert!(coloured.contains('\x1b'));
        let mut bare = String::new();
        let mut escape = false;
        for c in coloured.chars() {
            escape = escape || c == '\x1b';
            if !escape {
                bare.push(c);
            }
            escape = escape && c != 'm';
        }
        assert_eq!(bare, gpu(8, &slices, Colour::Never));
    }

    #[test]
    fn the_legend_names_every_mark() {
        let expect = "▓▓ in use   ▒▒ may be in use   + created   - destroyed   ·· no slice";
        assert_eq!(legend(Colour::Never), expect);
    }

    #[test]
    fn the_ruler_stands_above_the_units() {
        let ruler = ruler(8, Colour::Never);
        let line = gpu(8, &[], Colour::Never);
        for unit in 0..8 {
            let at = ruler.find(&unit.to_string()).unwrap();
            assert_eq!(line.chars().nth(at - 1), Some('│'), "{unit}");
        }
    }
}
