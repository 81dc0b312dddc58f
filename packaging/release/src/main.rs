//! `cargo xtask release` and `cargo xtask publish` start this program.

mod prepare;
mod publish;
mod registry;

use clap::Parser;

/// Makes a release.
#[derive(Debug, Parser)]
#[command(bin_name = "slicewright-release", max_term_width = 100)]
enum Args {
    /// Writes the next version into the checkout
    Prepare(prepare::Args),
    /// Publishes what was built of this version
    Publish(publish::Args),
}

fn main() -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    match Args::parse() {
        Args::Prepare(args) => prepare::run(&args, &mut out),
        Args::Publish(args) => publish::run(&args, &mut out),
    }
}
