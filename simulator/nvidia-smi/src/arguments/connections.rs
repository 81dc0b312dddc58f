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
    /// A NUMA node of one GPU.
    Numa { of: Numa, gpu: String },
}

/// The NUMA node nearest to a GPU of these, or its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numa {
    Cpu,
    Memory,
    Own,
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
    fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Board,
            1 => Self::Switch,
            2 => Self::Switches,
            3 => Self::HostBridge,
            4 => Self::Cpu,
            5 => Self::System,
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
    "--matrix_nvme",
    "--cpu-topo",
    "--memory-topo",
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
    Numa(Numa),
}

impl Asked {
    /// What is said where it is not asked about as many GPUs as it has to be.
    fn refused(&self) -> Refused {
        let words = match self {
            Self::Nearest(_) => {
                "Nearest GPUs argument must be used in conjunction with the -i argument which must be a single identifier."
            }
            Self::Between => {
                "Path command line flag must be used in conjection with the -i argument which must be two GPU identifiers."
            }
            Self::Numa(Numa::Cpu) => {
                "NUMA ID of nearest CPU must be used in conjunction with the -i argument which must be a single identifier."
            }
            Self::Numa(Numa::Memory) => {
                "NUMA ID of nearest memory must be used in conjunction with the -i argument which must be a single identifier."
            }
            Self::Numa(Numa::Own) => {
                "GPU NUMA ID command must be used in conjunction with the -i argument which must be a single identifier."
            }
            Self::Matrix | Self::NearCpu(_) | Self::Peers(_) => {
                return Refused::combination_of("topo");
            }
        };
        Refused::Wrong(format!("{words}\n\n"))
    }
}

fn number(words: &mut Words) -> Result<u32, Refused> {
    let option = words.option.clone();
    let value = words.value()?;
    value.parse().map_err(|_| Refused::value_there(&option, &value))
}

pub(super) fn topo(mut words: Words) -> Result<Command, Refused> {
    let refused = || Refused::combination_of("topo");
    // Whoever says nothing is told what could be said.
    if words.peek().is_none() {
        return Ok(Command::MonitorHelp);
    }
    let mut asked = Vec::new();
    let mut gpus = None;
    while let Some(word) = words.next() {
        asked.push(match word.as_str() {
            "-h" | "--help" => return Ok(Command::MonitorHelp),
            "-m" | "--matrix" => Asked::Matrix,
            "-c" | "--cpu" => Asked::NearCpu(number(&mut words)?),
            "-n" | "--nearest_gpus" => {
                let none = || Refused::Unknown("Failed to display the nearest GPUs\n\n".to_owned());
                Asked::Nearest(Path::from_number(number(&mut words)?).ok_or_else(none)?)
            }
            "-p" | "--gpu_path" => Asked::Between,
            "-p2p" | "--p2pstatus" => {
                let letter = words.value()?;
                let words = || {
                    Refused::Wrong("Invalid p2p capability index specified at the command-line\n".to_owned())
                };
                Asked::Peers(PeerAccess::from_letter(&letter).ok_or_else(words)?)
            }
            "-C" | "--get-numa-id-of-nearby-cpu" => Asked::Numa(Numa::Cpu),
            "-M" | "--get-numa-id-of-nearby-mem" => Asked::Numa(Numa::Memory),
            "-gnid" | "--gpu-numa-id" => Asked::Numa(Numa::Own),
            "-i" | "--id" => {
                gpus = Some(words.list()?);
                continue;
            }
            known if TOPOLOGY.contains(&known) => {
                return Err(Refused::not_simulated(&format!("topo {known}")));
            }
            unknown => return Err(Refused::stray(unknown)),
        });
    }
    // The real program answers several questions, too.
    if asked.len() > 1 {
        return Err(Refused::not_simulated("topo with several questions"));
    }
    let asked = asked.pop().ok_or_else(refused)?;
    Ok(Command::Topology(match (asked, gpus.as_deref()) {
        (Asked::Matrix, None) => Topology::Matrix,
        (Asked::NearCpu(cpu), None) => Topology::NearCpu(cpu),
        (Asked::Peers(access), None) => Topology::Peers(access),
        (Asked::Nearest(path), Some([gpu])) => Topology::Nearest { path, gpu: gpu.clone() },
        (Asked::Between, Some([one, other])) if one != other => {
            Topology::Between([one.clone(), other.clone()])
        }
        (Asked::Numa(of), Some([gpu])) => Topology::Numa { of, gpu: gpu.clone() },
        (asked, _) => return Err(asked.refused()),
    }))
}

/// What `nvlink` is asked. Of links that are there only the status is simulated; where there is none, every
/// question has the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NvlinkQuestion {
    Status,
    /// The option of another question.
    Other(&'static str),
    /// Which GPUs, and nothing of them.
    Nothing,
}

/// The other questions that a card without links answers.
const OF_LINKS: &[&str] = &[
    "-c",
    "--capabilities",
    "-p",
    "--pcibusid",
    "-R",
    "--remotelinkinfo",
    "-e",
    "--errorcounters",
    "-gc",
    "--getcontrol",
    "-g",
    "--getcounters",
    "-ec",
    "--crcerrorcounters",
    "-gLowPwrInfo",
    "--getLowPowerInfo",
    "-cBridge",
    "--checkBridge",
    "-info",
    "--info",
];

/// What is known of `nvlink` beside these.
const NVLINK: &[&str] = &[
    "-sc",
    "--setcontrol",
    "-r",
    "--resetcounters",
    "-re",
    "--reseterrorcounters",
    "-sLowPwrThres",
    "--setLowPowerThreshold",
    "-sLWidth",
    "-gLWidth",
    "-sBwMode",
    "--setBandwidthMode",
    "-gBwMode",
    "--getBandwidthMode",
];

pub(super) fn nvlink(mut words: Words) -> Result<Command, Refused> {
    // Whoever says nothing is told what could be said.
    if words.peek().is_none() {
        return Ok(Command::MonitorHelp);
    }
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
            "-gt" | "--getthroughput" => {
                words.optional_value().ok_or_else(|| Refused::without_value_there(&words.option))?;
                asked.push(NvlinkQuestion::Other("-gt"));
            }
            "-l" | "--link" => {
                words.value()?;
                asked.push(NvlinkQuestion::Other("-l"));
            }
            other => match OF_LINKS.iter().find(|known| **known == other) {
                Some(known) => asked.push(NvlinkQuestion::Other(known)),
                None => return Err(Refused::stray(other)),
            },
        }
    }
    match asked[..] {
        [question] => Ok(Command::Nvlink { targets, question }),
        [] => Ok(Command::Nvlink { targets, question: NvlinkQuestion::Nothing }),
        // Where there are links, several questions are not simulated.
        [.., _] => Ok(Command::Nvlink { targets, question: NvlinkQuestion::Other("with several options") }),
    }
}
