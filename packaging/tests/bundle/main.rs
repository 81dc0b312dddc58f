//! The OLM bundle: it is what is generated, it installs what the chart
//! installs, and everybody who judges bundles has nothing to say.
#![expect(clippy::unwrap_used, reason = "a helper of tests may panic")]

mod up_to_date;

use packaging::Helm;
use tempfile::TempDir;

/// A Helm, and the folder that it lives in.
struct Bench {
    helm: Helm,
    _home: TempDir,
}

impl Bench {
    fn new() -> Self {
        let home = TempDir::new().unwrap();
        let helm = Helm::find(home.path()).unwrap_or_else(|error| panic!("{error}"));
        Self { helm, _home: home }
    }
}
