//! `topo` and `nvlink`.

use super::{Command, Refused, Targets, Words};

/// What `topo` is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    /// How all GPUs are connected.
    Matrix,
    /// Which GPUs are near a CPU.
    NearCpu(u32),
    /// Which GPUs are exactly so far from one.
    Nearest { path: Path, gpu: String },
    /// What lies between two GPUs.
    Between([String; 2]),
    /// What each pair of GPUs can do with the memory of the other.
    Peers(PeerAccess),
}

/// What lies between two GPUs, by the numbers that `-n` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// One PCIe switch, on a board with two GPUs.
    Board,
    /// One PCIe switch.
    Switch,
    /// Several of them.
    Switches,
    /// A PCIe host bridge.
    HostBridge,
    /// Several host bridges of one CPU.
    Cpu,
    /// The link between two NUMA nodes.
    System,
}

impl Path {
    fn from_number(number: &str) -> Option<Self> {
        Some(match number {
            "0" => Self::Board,
            "1" => Self::Switch,
            "2" => Self::Switches,
            "3" => Self::HostBridge,
            "4" => Self::Cpu,
            "5" => Self::System,
            _ => return None,
        })
    }
}

/// What `-p2p` is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerAccess {
    Read,
    Write,
    NvLink,
    Atomics,
    Pcie,
}

impl PeerAccess {
    fn from_letter(letter: &str) -> Option<Self> {
        Some(match letter {
            "r" => Self::Read,
            "w" => Self::Write,
            "n" => Self::NvLink,
            "a" => Self::Atomics,
            "p" => Self::Pcie,
            _ => return None,
        })
    }
}

/// What is known of `topo` beside what is simulated.
const TOPOLOGY: &[&str] = &[
    "-mp",
    "--matrix_pci",
    "-nvme",
    "-C",
    "--get-numa-id-of-nearby-cpu",
    "--cpu-topo",
    "-M",
    "--memory-topo",
    "-gnid",
    "--gpu-numa-id",
    "-all",
    "-gpu",
    "-nic",
    "-cpu",
];

/// What stands in the command line before the GPUs are known.
enum Asked {
    Matrix,
    NearCpu(u32),
    Nearest(Path),
    Between,
    Peers(PeerAccess),
}

pub(super) fn topo(mut words: Words) -> Result<Command, Refused> {
    let refused = || Refused::combination_of("topo");
    let mut asked = Vec::new();
    let mut gpus = None;
    while let Some(word) = words.next() {
        asked.push(match word.as_str() {
            "-h" | "--help" => return Ok(Command::MonitorHelp),
            "-m" | "--matrix" => Asked::Matrix,
            "-c" | "--cpu" => Asked::NearCpu(words.value()?.parse().map_err(|_| refused())?),
            "-n" | "--nearest_gpus" => {
                Asked::Nearest(Path::from_number(&words.value()?).ok_or_else(refused)?)
            }
            "-p" | "--gpu_path" => Asked::Between,
            "-p2p" | "--p2pstatus" => {
                Asked::Peers(PeerAccess::from_letter(&words.value()?).ok_or_else(refused)?)
            }
            "-i" | "--id" => {
                gpus = Some(words.list()?);
                continue;
            }
            known if TOPOLOGY.contains(&known) => {
                return Err(Refused::not_simulated(&format!("topo {known}")));
            }
            unknown => return Err(Refused::unknown_of("topo", unknown)),
        });
    }
    let [asked] = <[Asked; 1]>::try_from(asked).map_err(|_| refused())?;
    Ok(Command::Topology(match (asked, gpus.as_deref()) {
        (Asked::Matrix, None) => Topology::Matrix,
        (Asked::NearCpu(cpu), None) => Topology::NearCpu(cpu),
        (Asked::Peers(access), None) => Topology::Peers(access),
        (Asked::Nearest(path), Some([gpu])) => Topology::Nearest { path, gpu: gpu.clone() },
        (Asked::Between, Some([one, other])) => Topology::Between([one.clone(), other.clone()]),
        _ => return Err(refused()),
    }))
}

/// What `nvlink` is asked. Of links that are there only the status is simulated; where there is none, every
/// question has the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NvlinkQuestion {
    Status,
    /// The option of another question.
    Other(&'static str),
}

/// The other questions that a card without links answers.
const OF_LINKS: &[&str] =
    &["-c", "--capabilities", "-p", "--pcibusid", "-R", "--remotelinkinfo", "-e", "--errorcounters"];

/// What is known of `nvlink` beside these.
const NVLINK: &[&str] = &[
    "-l",
    "--link",
    "-sc",
    "--setcontrol",
    "-gc",
    "--getcontrol",
    "-g",
    "--getcounters",
    "-r",
    "--resetcounters",
    "-ec",
    "--crcerrorcounters",
    "-re",
    "--reseterrorcounters",
    "-gt",
    "--getthroughput",
    "-sLowPwrThres",
    "--setLowPowerThreshold",
    "-gLowPwrInfo",
    "--getLowPowerInfo",
    "-cBridge",
    "--checkBridge",
    "-sLWidth",
    "-gLWidth",
    "-sBwMode",
    "--setBandwidthMode",
    "-gBwMode",
    "--getBandwidthMode",
    "-info",
    "--info",
];

pub(super) fn nvlink(mut words: Words) -> Result<Command, Refused> {
    let mut targets = Targets::default();
    let mut asked = Vec::new();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-h" | "--help" => return Ok(Command::MonitorHelp),
            "-s" | "--status" => asked.push(NvlinkQuestion::Status),
            "-i" | "--id" => targets = Targets(Some(words.list()?)),
            // It takes no value any more (driver 580.159.04).
            "-r" | "--resetcounters" if words.peek().is_some_and(|next| !next.starts_with('-')) => {
                return Err(Refused::stray(&words.value()?));
            }
            known if NVLINK.contains(&known) => {
                return Err(Refused::not_simulated(&format!("nvlink {known}")));
            }
            other => match OF_LINKS.iter().find(|known| **known == other) {
                Some(known) => asked.push(NvlinkQuestion::Other(known)),
                None => return Err(Refused::unknown_of("nvlink", other)),
            },
        }
    }
    match asked[..] {
        [question] => Ok(Command::Nvlink { targets, question }),
        _ => Err(Refused::combination_of("nvlink")),
    }
}
