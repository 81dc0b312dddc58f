//! Converts plain values to nvidia-smi's texts, character for character. Nothing here queries or changes
//! anything; there is one file for each format.

pub(crate) mod compute_instances;
pub(crate) mod compute_profiles;
pub(crate) mod connections;
pub(crate) mod csv;
pub(crate) mod gpu_instances;
pub(crate) mod gpu_profiles;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod monitors;
pub(crate) mod placements;
pub(crate) mod summary;

/// A table whose rows are as wide as its first line.
struct Table {
    text: String,
    width: usize,
}

impl Table {
    /// A table with its heading, which a double line ends.
    fn headed(heading: &[String]) -> Self {
        let width = heading.first().map_or(0, String::len);
        let mut table = Self { text: String::new(), width };
        table.line();
        for row in heading {
            table.row(row);
        }
        table.text.push_str(&format!("|{}|\n", "=".repeat(width)));
        table
    }

    fn row(&mut self, cells: &str) {
        self.text.push_str(&format!("|{cells:<width$}|\n", width = self.width));
    }

    fn line(&mut self) {
        self.text.push_str(&format!("+{}+\n", "-".repeat(self.width)));
    }
}

/// MiB as GiB with two decimals, as `-lgip` prints memory.
fn gib(mib: u64) -> String {
    // Profiles are below 2^52 MiB, where this is exact.
    #[expect(clippy::cast_precision_loss, reason = "profiles are far below 2^52 MiB")]
    let gib = mib as f64 / 1024.0;
    format!("{gib:.2}")
}
