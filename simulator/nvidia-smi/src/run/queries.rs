//! `--query-…`: fields that are looked up by name, and rows of them.

use std::collections::BTreeSet;
use std::io;

use super::Session;
use crate::arguments::{Query, Repeated, Targets};
use crate::ask::{self, Selection};
use crate::exit::Exit;
use crate::generation::Driver;
use crate::render::csv::{self, Accounted, App, ClockPair, Field, Format, Remapped, Retired, Subject};
use crate::snapshot::Gpu;

/// The fields of one query, by name.
type Chosen<T> = Vec<&'static Field<T>>;

impl Session<'_> {
    pub(super) fn query(
        &mut self,
        query: Query,
        targets: &Targets,
        names: &str,
        format: Format,
        repeated: &Repeated,
    ) -> io::Result<Exit> {
        // Pairs of clocks that look the same are printed once (driver 580.159.04).
        let distinct = query == Query::SupportedClocks;
        let rows = Rows { targets, format, repeated, distinct };
        match query {
            Query::Gpu => self.rows(csv::GPU_FIELDS, names, &rows, |session, all, gpu| {
                let system = ask::system(session.library);
                vec![Subject { time: session.time(), system, count: all.count, gpu }]
            }),
            Query::ComputeApps => self.rows(&[csv::APPS], names, &rows, |session, _, gpu| {
                let of = |process: &crate::snapshot::Process| App {
                    time: session.time(),
                    gpu: gpu.clone(),
                    process: process.clone(),
                };
                gpu.processes.iter().filter(|process| csv::computes(process)).map(of).collect()
            }),
            Query::AccountedApps => self.rows(&[csv::ACCOUNTED], names, &rows, |session, all, gpu| {
                let time = session.time();
                let found = all.found.iter().find(|found| found.index == gpu.index);
                let remembered = found.map(ask::accounted).unwrap_or_default();
                let of = |process: ask::Remembered| Accounted {
                    time: time.clone(),
                    gpu: gpu.clone(),
                    pid: process.pid,
                    busy: process.busy,
                    memory_busy: process.memory_busy,
                    most_memory: process.most_memory,
                    took: process.took,
                };
                remembered.into_iter().map(of).collect()
            }),
            Query::RetiredPages => self.rows(&[csv::RETIRED], names, &rows, |session, all, gpu| {
                let found = all.found.iter().find(|found| found.index == gpu.index);
                retired(&session.time(), &gpu, found)
            }),
            Query::RemappedRows => self.rows(&[csv::REMAPPED], names, &rows, |session, _, gpu| {
                vec![Remapped { time: session.time(), gpu }]
            }),
            Query::SupportedClocks => self.rows(&[csv::CLOCKS], names, &rows, |session, _, gpu| {
                let time = session.time();
                let pairs = gpu
                    .readings
                    .clocks
                    .supported
                    .iter()
                    .flat_map(|(memory, graphics)| graphics.iter().map(|clock| (*memory, *clock)));
                let of =
                    |(memory, graphics)| ClockPair { time: time.clone(), gpu: gpu.clone(), memory, graphics };
                pairs.map(of).collect()
            }),
        }
    }

    /// Prints the rows that `of` makes of each GPU. With `-l` the heading stands
    /// above the first only.
    fn rows<T>(
        &mut self,
        all_fields: &'static [&'static [Field<T>]],
        names: &str,
        rows: &Rows<'_>,
        of: impl Fn(&mut Self, &Selection<'_>, Gpu) -> Vec<T>,
    ) -> io::Result<Exit> {
        let Some(fields) = self.chosen(all_fields, names)? else { return Ok(Exit::INVALID_ARGUMENT) };
        let driver: Driver = self.driver();
        let Rows { targets, format, repeated, distinct } = *rows;
        self.repeat(repeated, |session, first| {
            session.with(targets, |session, all| {
                if first && format.header {
                    write!(session.out, "{}", csv::header(&fields))?;
                }
                for gpu in session.everything(&all.found)? {
                    let mut said = BTreeSet::new();
                    for subject in of(session, &all, gpu) {
                        let row = csv::row(&fields, &subject, driver, format);
                        if !distinct || said.insert(row.clone()) {
                            write!(session.out, "{row}")?;
                        }
                    }
                }
                Ok(Exit::SUCCESS)
            })
        })
    }

    fn chosen<T>(
        &mut self,
        all: &'static [&'static [Field<T>]],
        names: &str,
    ) -> io::Result<Option<Chosen<T>>> {
        match csv::find(all, names) {
            Ok(fields) => Ok(Some(fields)),
            Err(unknown) => {
                writeln!(self.out, "Field \"{unknown}\" is not a valid field to query.\n")?;
                Ok(None)
            }
        }
    }
}

/// What all rows of a query have in common.
struct Rows<'r> {
    targets: &'r Targets,
    format: Format,
    repeated: &'r Repeated,
    /// Whether equal rows of a GPU are one.
    distinct: bool,
}

/// The pages of a GPU by cause. A card that retires no pages has a row for each
/// cause all the same, without a page.
fn retired(time: &str, gpu: &Gpu, found: Option<&ask::Found<'_>>) -> Vec<Retired> {
    let mut rows = Vec::new();
    for (cause, pages) in found.map(ask::retired_pages).unwrap_or_default() {
        let row = |page| Retired { time: time.to_owned(), gpu: gpu.clone(), page, cause };
        match pages {
            None => rows.push(row(None)),
            Some(pages) => rows.extend(pages.into_iter().map(|page| row(Some(page)))),
        }
    }
    rows
}
