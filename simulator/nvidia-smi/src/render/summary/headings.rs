//! The headings of the three tables, and the widths under them, in each
//! generation: what the captures show, word for word.

use crate::generation::{Driver, Form};

/// The headings and measures of a generation.
pub(super) struct Headings {
    /// Characters between the outer borders.
    pub(super) inner: usize,
    /// How wide the two version cells are, with their gaps.
    pub(super) versions: (usize, usize),
    /// The left end of the line under the versions: `|` or `+`.
    pub(super) joint: &'static str,
    /// The columns of the table of GPUs.
    pub(super) columns: [usize; 3],
    /// The three lines of its heading.
    pub(super) gpus: [&'static str; 3],
    /// How long a GPU's name may be.
    pub(super) name: usize,
    /// Spaces after the persistence mode.
    pub(super) after_persistence: usize,
    /// The columns of the table of MIG devices.
    pub(super) mig_columns: [usize; 4],
    /// The three lines of its heading.
    pub(super) mig: [&'static str; 3],
    /// Spaces after the memory of a MIG device, and after its BAR1 memory.
    pub(super) after_memory: (usize, usize),
    /// Whether compute instances of one GPU instance share the cell of their memory.
    pub(super) shares_cells: bool,
    /// How many spaces stand in the line before the processes.
    pub(super) gap: usize,
    /// The two lines of the heading of the processes.
    pub(super) processes: [&'static str; 2],
    /// How wide the column of process ids is.
    pub(super) pid: usize,
    /// How long the name of a process may be.
    pub(super) process_name: usize,
}

impl Headings {
    pub(super) fn for_driver(driver: Driver) -> Self {
        [(Form::R580, R580), (Form::R570, R570), (Form::R555, R555), (Form::R545, R545), (Form::R530, R530)]
            .into_iter()
            .find(|(form, _)| driver.has(*form))
            .map_or(R515, |(_, headings)| headings)
    }
}

const R515: Headings = Headings {
    inner: 77,
    versions: (13, 13),
    joint: "|",
    columns: [31, 22, 22],
    gpus: [
        "| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |",
        "|                               |                      |               MIG M. |",
    ],
    name: 18,
    after_persistence: 2,
    mig_columns: [18, 22, 11, 23],
    mig: [
        "| GPU  GI  CI  MIG |         Memory-Usage |        Vol|         Shared        |",
        "|      ID  ID  Dev |           BAR1-Usage | SM     Unc| CE  ENC  DEC  OFA  JPG|",
        "|                  |                      |        ECC|                       |",
    ],
    after_memory: (1, 1),
    shares_cells: true,
    gap: 79,
    processes: [
        "|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |",
        "|        ID   ID                                                   Usage      |",
    ],
    pid: 10,
    process_name: 28,
};

const R530: Headings = Headings {
    inner: 87,
    versions: (23, 13),
    columns: [41, 22, 22],
    gpus: [
        "| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |",
        "|                                         |                      |               MIG M. |",
    ],
    name: 27,
    after_persistence: 1,
    mig_columns: [18, 32, 11, 23],
    mig: [
        "| GPU  GI  CI  MIG |                   Memory-Usage |        Vol|      Shared           |",
        "|      ID  ID  Dev |                     BAR1-Usage | SM     Unc| CE ENC DEC OFA JPG    |",
        "|                  |                                |        ECC|                       |",
    ],
    after_memory: (2, 2),
    gap: 89,
    processes: [
        "|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |",
        "|        ID   ID                                                             Usage      |",
    ],
    process_name: 38,
    ..R515
};

const R545: Headings = Headings {
    inner: 89,
    versions: (23, 15),
    columns: [41, 24, 22],
    gpus: [
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
        "|                                         |                        |               MIG M. |",
    ],
    mig_columns: [18, 34, 11, 23],
    mig: [
        "| GPU  GI  CI  MIG |                     Memory-Usage |        Vol|      Shared           |",
        "|      ID  ID  Dev |                       BAR1-Usage | SM     Unc| CE ENC DEC OFA JPG    |",
        "|                  |                                  |        ECC|                       |",
    ],
    after_memory: (4, 2),
    processes: [
        "|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |",
        "|        ID   ID                                                               Usage      |",
    ],
    ..R530
};

const R555: Headings = Headings {
    mig: [
        "| GPU  GI  CI  MIG |                     Memory-Usage |        Vol|        Shared         |",
        "|      ID  ID  Dev |                       BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |",
        "|                  |                                  |        ECC|                       |",
    ],
    ..R545
};

const R570: Headings = Headings {
    processes: [
        "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |",
        "|        ID   ID                                                               Usage      |",
    ],
    pid: 16,
    process_name: 32,
    ..R555
};

const R580: Headings = Headings {
    joint: "+",
    mig: [
        "| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |",
        "|      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |",
        "|                  |                                  |        ECC|                       |",
    ],
    after_memory: (4, 4),
    shares_cells: false,
    gap: 0,
    ..R570
};
