//! The demo on a real control plane: `cargo xtask demo` runs it.

use std::process::ExitCode;

fn main() -> ExitCode {
    let keep = std::env::args().skip(1).any(|arg| arg == "--keep");
    #[expect(clippy::disallowed_methods, reason = "cargo xtask says where it is")]
    let kubectl = std::env::var_os("TEST_ASSET_KUBECTL").map(std::path::PathBuf::from);
    let mut out = std::io::stdout();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be started");
    match runtime.block_on(e2e::demo::run(keep, kubectl.as_deref(), &mut out)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to be told when even that fails.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{error:#}\n").as_bytes());
            ExitCode::FAILURE
        }
    }
}
