//! `compute-policy`, `boost-slider` and `vgpu`: what nobody sets on a simulated card.

use std::io;

use super::Session;
use crate::arguments::Targets;
use crate::ask::Found;
use crate::exit::Exit;

/// The architecture whose cards have a slider for their video clock (an H200, driver 580.159.04). What others say is not
/// known.
const WITH_SLIDER: &str = "Hopper";

impl Session<'_> {
    pub(super) fn compute_policies(&mut self, targets: &Targets) -> io::Result<Exit> {
        self.with(targets, |session, all| {
            writeln!(session.out, "+-------------------------------------+")?;
            writeln!(session.out, "| GPU compute policies:               |")?;
            writeln!(session.out, "| GPU     Name           Value        |")?;
            writeln!(session.out, "|=====================================|")?;
            for Found { index, .. } in &all.found {
                writeln!(session.out, "| {index:>3}   Timeslice       Default       |")?;
                writeln!(session.out, "+-------------------------------------+")?;
            }
            Ok(Exit::SUCCESS)
        })
    }

    pub(super) fn boost_sliders(&mut self, targets: &Targets) -> io::Result<Exit> {
        self.with(targets, |session, all| {
            let gpus = session.everything(&all.found)?;
            if gpus.iter().any(|gpu| gpu.architecture != Some(WITH_SLIDER)) {
                writeln!(
                    session.err,
                    "boost-slider is known to nvidia-smi, and simulated for {WITH_SLIDER} only"
                )?;
                return Ok(Exit::NOT_SIMULATED);
            }
            writeln!(session.out, "+-------------------------------------------------+")?;
            writeln!(session.out, "| GPU Boost Slider                                |")?;
            writeln!(session.out, "| GPU     Slider       Max Value    Current Value |")?;
            writeln!(session.out, "|=================================================|")?;
            for gpu in &gpus {
                writeln!(session.out, "| {:>3}     vboost           4              0       |", gpu.index)?;
                writeln!(session.out, "+-------------------------------------------------+")?;
            }
            Ok(Exit::SUCCESS)
        })
    }

    pub(super) fn vgpus(&mut self, targets: &Targets) -> io::Result<Exit> {
        self.with(targets, |session, _| {
            writeln!(session.out, "No supported devices in vGPU mode")?;
            Ok(Exit::SUCCESS)
        })
    }
}
