//! The demo on a real control plane: `cargo xtask demo` runs it.

use std::io::Write;
use std::process::ExitCode;

const HELP: &str = "\
The demo on a real control plane: virtual GPU nodes, the operator, and people who ask for slices

Usage: cargo xtask demo [--keep]

Options:
      --keep  Leave everything running at the end, until Ctrl-C
  -h, --help  Print help
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        // Whoever closed the output does not want to know.
        let _ = std::io::stdout().write_all(HELP.as_bytes());
        return ExitCode::SUCCESS;
    }
    // Starting a control plane takes a while: a slip of the pen is said before.
    if let Some(unknown) = args.iter().find(|arg| *arg != "--keep") {
        let _ = write!(std::io::stderr(), "error: there is no option `{unknown}`\n\n{HELP}");
        return ExitCode::from(64);
    }
    let keep = !args.is_empty();
    #[expect(clippy::disallowed_methods, reason = "cargo xtask says where it is")]
    let kubectl = std::env::var_os("TEST_ASSET_KUBECTL").map(std::path::PathBuf::from);
    let mut out = std::io::stdout();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be started");
    match runtime.block_on(e2e::demo::run(keep, kubectl.as_deref(), &mut out)) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever went away has seen enough.
        Err(error) if error.chain().any(is_broken_pipe) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to be told when even that fails.
            let _ = std::io::stderr().write_all(format!("{error:#}\n").as_bytes());
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
