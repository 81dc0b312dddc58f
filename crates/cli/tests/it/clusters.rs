//! Commands that talk to a cluster, where there is none to talk to.

use cli::exit::Status;

#[test]
fn a_kubeconfig_that_cannot_be_read_is_told_once_with_its_cause() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join("no-kubeconfig");
    std::fs::write(&file, "clusters: [").expect("written");
    for (path, cause) in [(folder.join("nowhere"), "No such file"), (file, "")] {
        let words = ["slicewright", "release", "--kubeconfig", &path.display().to_string(), "n1"];
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let status = cli::run(words.map(Into::into), &mut out, &mut err);
        let said = String::from_utf8(err).expect("text");
        assert_eq!(status, Status::Data, "{said}");
        assert!(said.starts_with("error: failed to read the kubeconfig: "), "{said}");
        let parts: Vec<&str> = said.trim_end().split(": ").skip(2).collect();
        let mut once = parts.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), parts.len(), "nothing is said twice: {said}");
        assert!(said.contains(cause), "{said}");
    }
}
