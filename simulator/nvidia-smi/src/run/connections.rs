//! `topo` and `nvlink`.

use std::io;

use nvml::{Code, Error};

use super::Session;
use crate::act::{code_of, failed};
use crate::arguments::{Numa, NvlinkQuestion, Path, PeerAccess, Targets, Topology};
use crate::ask::{self, Found, Selection, machine};
use crate::exit::Exit;
use crate::render::connections;

impl Session<'_> {
    pub(super) fn topology(&mut self, question: Topology) -> io::Result<Exit> {
        match question {
            Topology::Matrix => self.with(&Targets::default(), |session, all| session.matrix(&all.found)),
            Topology::Peers(access) => {
                self.with(&Targets::default(), |session, all| session.peers(&all.found, access))
            }
            Topology::NearCpu(cpu) => self.with(&Targets::default(), |session, _| session.near_cpu(cpu)),
            Topology::Nearest { path, gpu } => {
                self.with(&Targets(Some(vec![gpu])), |session, all| session.nearest(&all, path))
            }
            Topology::Numa { of, gpu } => {
                self.with(&Targets(Some(vec![gpu])), |session, all| session.numa(&all.found, of))
            }
            Topology::Between(pair) => {
                self.with(&Targets(Some(pair.into())), |session, all| session.between(&all.found))
            }
        }
    }

    fn matrix(&mut self, found: &[Found<'_>]) -> io::Result<Exit> {
        let rows = machine::neighbours(self.library, found);
        write!(self.out, "{}", connections::matrix(&rows, self.driver()))?;
        Ok(Exit::SUCCESS)
    }

    fn peers(&mut self, found: &[Found<'_>], access: PeerAccess) -> io::Result<Exit> {
        write!(self.out, "{}", connections::peers(&machine::peers(found, access)))?;
        Ok(Exit::SUCCESS)
    }

    fn near_cpu(&mut self, cpu: u32) -> io::Result<Exit> {
        match machine::near_cpu(self.library, cpu) {
            Ok(near) => {
                write!(self.out, "{}", connections::near_cpu(cpu, &near))?;
                Ok(Exit::SUCCESS)
            }
            Err(error) => self.no_topology(&error),
        }
    }

    fn nearest(&mut self, all: &Selection<'_>, path: Path) -> io::Result<Exit> {
        for found in &all.found {
            match machine::nearest(found, path) {
                Ok(near) => write!(self.out, "{}", connections::nearest(found.index, path, &near))?,
                Err(error) => return self.no_topology(&error),
            }
        }
        Ok(Exit::SUCCESS)
    }

    fn numa(&mut self, found: &[Found<'_>], of: Numa) -> io::Result<Exit> {
        for row in machine::neighbours(self.library, found) {
            write!(self.out, "{}", connections::numa(of, &row))?;
        }
        Ok(Exit::SUCCESS)
    }

    fn between(&mut self, found: &[Found<'_>]) -> io::Result<Exit> {
        let [one, other] = found else {
            // The same GPU twice.
            return failed(self.out, "display topology", Code::InvalidArgument);
        };
        match machine::between(self.library, one, other) {
            Ok(path) => {
                write!(self.out, "{}", connections::between(one.index, other.index, path))?;
                Ok(Exit::SUCCESS)
            }
            Err(error) => self.no_topology(&error),
        }
    }

    fn no_topology(&mut self, error: &Error) -> io::Result<Exit> {
        failed(self.out, "display topology", code_of(error))
    }

    pub(super) fn nvlinks(&mut self, targets: &Targets, question: NvlinkQuestion) -> io::Result<Exit> {
        let driver = self.driver();
        self.with(targets, |session, all| {
            for found in &all.found {
                let gpu = match ask::listed(found) {
                    Ok(gpu) => gpu,
                    Err(error) => {
                        session.silent(found.index, code_of(&error))?;
                        continue;
                    }
                };
                let links = match machine::nvlinks_of(found) {
                    Ok(links) => Some(links),
                    Err(error) if error.code() == Some(Code::GpuIsLost) => {
                        session.silent(found.index, Code::GpuIsLost)?;
                        continue;
                    }
                    Err(_) => None,
                };
                if question == NvlinkQuestion::Nothing {
                    continue;
                }
                if let (NvlinkQuestion::Other(option), Some(_), false) = (question, &links, gpu.mig_is_on()) {
                    writeln!(session.err, "nvlink {option} is known to nvidia-smi, not simulated")?;
                    return Ok(Exit::NOT_SIMULATED);
                }
                write!(session.out, "{}", connections::links(&gpu, links.as_deref(), driver))?;
            }
            Ok(Exit::SUCCESS)
        })
    }
}
