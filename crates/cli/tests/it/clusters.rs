//! Commands that talk to a cluster, where there is none to talk to.

use cli::exit::Status;

/// Whoever has no cluster learns which file was looked for, once and as people write it.
#[test]
fn where_there_is_no_cluster_the_file_that_was_looked_for_is_named_plainly() {
    let home = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-home");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_slicewright"))
        .arg("fleet")
        .env_clear()
        .env("HOME", &home)
        .output()
        .expect("it starts");
    let said = String::from_utf8(output.stderr).expect("text");
    let file = home.join(".kube/config");
    let begins =
        format!("error: failed to find the API server: no kubeconfig ({}: No such file", file.display());
    assert!(said.starts_with(&begins), "{said}");
    assert!(
        said.contains("and no service account of a pod (")
            && said.contains("name a kubeconfig with --kubeconfig"),
        "{said}"
    );
    assert_eq!(said.matches("kube/config").count(), 1, "{said}");
}

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
