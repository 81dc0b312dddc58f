//! `conf-compute`, `c2c`, `power-profiles` and `drain`: states that nothing here changes. The words are those of
//! transcripts; `docs/simulator.md` names them.

use std::io;

use nvml::{Code, Error};
use nvml_wrapper::enums::device::DeviceArchitecture;

use super::Session;
use crate::act::{code_of, failed};
use crate::arguments::{Confidential, State, Targets};
use crate::ask::Found;
use crate::exit::Exit;
use crate::generation::Form;

/// Names of cards with a processor on their module, to which they have links.
const WITH_CHIP_LINKS: [&str; 3] = ["GH200", "GB200", "GB300"];

impl Session<'_> {
    pub(super) fn state(&mut self, state: State) -> io::Result<Exit> {
        match state {
            State::Confidential(asked) => match self.confidential(asked) {
                Ok(text) => {
                    writeln!(self.out, "{text}")?;
                    Ok(Exit::SUCCESS)
                }
                Err(error) if error.code() == Some(Code::NotSupported) => {
                    self.not_of_these("conf-compute", "for H100 and H200 only")
                }
                Err(error) => failed(self.out, "query confidential compute", code_of(&error)),
            },
            State::ChipLinks(targets) => self.chip_links(&targets),
            State::PowerProfiles(targets) => self.power_profiles(&targets),
            State::Drain { address } => self.drain(address),
        }
    }

    fn confidential(&self, asked: Confidential) -> Result<String, Error> {
        let switch = |on| if on { "ON" } else { "OFF" };
        Ok(match asked {
            Confidential::Feature => {
                format!("CC status: {}", switch(self.library.confidential_state()?.enabled))
            }
            Confidential::DevTools => {
                format!("DevTools Mode: {}", switch(self.library.confidential_state()?.dev_tools))
            }
            Confidential::Environment => {
                let words = match self.library.confidential_state()?.environment {
                    0 => "UNAVAILABLE",
                    1 => "INTERNAL",
                    _ => "PRODUCTION",
                };
                format!("CC Environment: {words}")
            }
            Confidential::Ready => {
                let words = if self.library.confidential_gpus_ready()? { "ready" } else { "not-ready" };
                format!("Confidential Compute GPUs Ready state: {words}")
            }
            Confidential::All => {
                let state = self.library.confidential_state()?;
                let capabilities = self.library.confidential_capabilities()?;
                let ready = self.library.confidential_gpus_ready()?;
                let cpu = match capabilities.cpu {
                    0 => "None",
                    1 => "AMD SEV",
                    2 => "INTEL TDX",
                    3 => "AMD SEV-SNP",
                    _ => "AMD SEV-SNP (vTOM Mode)",
                };
                [
                    "\n==============NVSMI CONF-COMPUTE LOG==============\n".to_owned(),
                    format!("    CC State                   : {}", switch(state.enabled)),
                    "    Multi-GPU Mode             : None".to_owned(),
                    format!("    CPU CC Capabilities        : {cpu}"),
                    format!(
                        "    GPU CC Capabilities        : {}",
                        if capabilities.gpus { "CC Capable" } else { "Not CC Capable" }
                    ),
                    format!("    CC GPUs Ready State        : {}", if ready { "Ready" } else { "Not Ready" }),
                ]
                .join("\n")
            }
        })
    }

    /// A card alone has no such links; where a processor is on its module, only hardware knows what they do.
    fn chip_links(&mut self, targets: &Targets) -> io::Result<Exit> {
        self.with(targets, |session, all| {
            let has_links = |found: &Found<'_>| {
                let name = found.gpu.device().name().unwrap_or_default();
                found.gpu.chip_to_chip() == Ok(true) || WITH_CHIP_LINKS.iter().any(|with| name.contains(with))
            };
            if all.found.iter().any(has_links) {
                return session.not_of_these("c2c", "for cards without a processor on their module");
            }
            writeln!(session.out, "No Devices support C2C.")?;
            Ok(Exit::from_code(Code::NotSupported))
        })
    }

    fn power_profiles(&mut self, targets: &Targets) -> io::Result<Exit> {
        let driver = self.driver();
        self.with(targets, |session, all| {
            let without = |found: &Found<'_>| {
                use DeviceArchitecture::{Ada, Ampere, Hopper, Turing, Volta};
                matches!(found.gpu.device().architecture(), Ok(Volta | Turing | Ampere | Ada | Hopper))
            };
            if !driver.has(Form::R570) || !all.found.iter().all(without) {
                return session
                    .not_of_these("power-profiles", "for cards before Blackwell, from driver 570 on");
            }
            writeln!(session.out, "Workload Power Profiles feature is not supported on this device.")?;
            Ok(Exit::from_code(Code::NotSupported))
        })
    }

    fn drain(&mut self, address: String) -> io::Result<Exit> {
        self.with(&Targets(Some(vec![address])), |session, all| {
            for found in &all.found {
                let drains = found.gpu.device().is_drain_enabled(None);
                let id = &found.pci.id;
                match drains.map_err(|error| Error::from_call("nvmlDeviceQueryDrainState", error)) {
                    Ok(drains) => {
                        let state = if drains { "draining" } else { "not draining" };
                        writeln!(session.out, "The current drain state of GPU {id} is: {state}.")?;
                    }
                    Err(error) => return failed(session.out, "query drain state", code_of(&error)),
                }
            }
            Ok(Exit::SUCCESS)
        })
    }

    fn not_of_these(&mut self, subcommand: &str, which: &str) -> io::Result<Exit> {
        writeln!(self.err, "{subcommand} is known to nvidia-smi, and simulated {which}")?;
        Ok(Exit::NOT_SIMULATED)
    }
}
