//! What the chart and the pages say until there is a release, and what they say from then on. The first release writes
//! the second in the place of the first; those after it find everything in its place.

use packaging::values;

use crate::bump::NoPlace;
use crate::home::Home;

/// Words that are true until the first release, and those that are true from then on. In the latter, `{prefix}` is where
/// images are published, and `{organisation}` the part of it behind the registry.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// The file, from the root of the repository.
    pub file: &'static str,
    /// Until then.
    pub before: &'static str,
    /// From then on.
    pub after: &'static str,
}

const fn told(file: &'static str, before: &'static str, after: &'static str) -> Told {
    Told { file, before, after }
}

/// All of them. The chart's values say where images are published, besides ([`values::published`]).
pub const TOLD: &[Told] = &[
    told(
        "charts/slicewright/values.yaml",
        "No image is published yet, so this value or a digest is required. Build the image with `cargo xtask image operator`; an image that you load into kind or CRC has the registry `localhost`.",
        "The image of this version is there; set this value for a mirror of it. An image that you build with `cargo xtask image operator` and load into kind has the registry `localhost` and the repository `slicewright/slicewright`.",
    ),
    told(
        "charts/slicewright/README.md.head",
        " --create-namespace \\\n\
         \x20 --set image.registry=localhost\n\
         ```\n\
         \n\
         `image.registry` says where the image is. `localhost` is where `cargo xtask image operator` and `kind load image-archive\n\
         target/images/operator.tar` put it on a kind cluster; elsewhere, name the registry to which you pushed it. The chart refuses\n\
         to install without `image.registry` or `image.digest` until images are published. The notes",
        " --create-namespace\n\
         ```\n\
         \n\
         The chart knows the image of its version. To install an image of your own, set `image.registry` and `image.repository`:\n\
         `localhost` and `slicewright/slicewright` are where `cargo xtask image operator` and `kind load image-archive\n\
         target/images/operator.tar` put it on a kind cluster; elsewhere, name the registry to which you pushed it. The notes",
    ),
    told(
        "charts/slicewright/templates/_helpers.tpl",
        "image.registry and image.digest are empty, and no image of Slicewright is published yet: build one with",
        "image.registry and image.digest are empty: leave image.registry and image.repository as values.yaml has them, or build an image (its image.repository is slicewright/slicewright) with",
    ),
    told(
        "charts/slicewright/templates/_helpers.tpl",
        "agent.image.registry, image.registry and agent.image.digest are empty: no image of the agent is published yet; build one with",
        "agent.image.registry, image.registry and agent.image.digest are empty: leave image.registry as values.yaml has it, or build an image (its agent.image.repository is slicewright/agent) with",
    ),
    told(
        "docs/guides/install.md",
        "No image is published yet, so build one first, and tell the chart where it is. The chart refuses to install if it does\n\
         not know the location. On kind:\n\
         \n\
         ```text\n\
         cargo xtask image operator\n\
         kind load image-archive target/images/operator.tar\n\
         helm install slicewright charts/slicewright --namespace slicewright-system --create-namespace \\\n\
         \x20 --set image.registry=localhost\n\
         ```",
        "The chart knows the image of its version. `oci://{prefix}/charts/slicewright` is the same chart without a checkout.\n\
         \n\
         ```text\n\
         helm install slicewright charts/slicewright --namespace slicewright-system --create-namespace\n\
         ```",
    ),
    told(
        "docs/guides/install.md",
        "For CRC\n\
         (OpenShift Local), for a cluster with its own registry, and for nodes that pull from any other registry, see\n\
         [images]",
        "To\n\
         install an image that you built, on kind, on CRC (OpenShift Local) or from any registry, see\n\
         [images]",
    ),
    told(
        "docs/guides/install.md",
        "docker://REGISTRY/slicewright/slicewright@sha256:DIGEST docker://MIRROR/slicewright/slicewright\n",
        "docker://{prefix}/slicewright@sha256:DIGEST docker://MIRROR/{organisation}/slicewright\n",
    ),
    told("docs/guides/install.md", "A release will have archives", "A release has archives"),
    told(
        "docs/ko/install.md",
        "아직 공개된 이미지가 없으므로 먼저 이미지를 빌드한 뒤 그 위치를 지정합니다. 지정하지 않으면 차트가 설치를 거부합니다.\n\
         kind에서는 다음과 같이 합니다.\n\
         \n\
         ```text\n\
         cargo xtask image operator\n\
         kind load image-archive target/images/operator.tar\n\
         helm install slicewright charts/slicewright --namespace slicewright-system --create-namespace \\\n\
         \x20 --set image.registry=localhost\n\
         ```",
        "차트는 해당 버전의 이미지가 어디에 있는지 알고 있습니다. 저장소를 내려받지 않았다면 같은 차트를\n\
         `oci://{prefix}/charts/slicewright`에서 설치할 수 있습니다.\n\
         \n\
         ```text\n\
         helm install slicewright charts/slicewright --namespace slicewright-system --create-namespace\n\
         ```",
    ),
    told(
        "docs/ko/install.md",
        "CRC를 쓰거나,\n\
         클러스터에 자체 레지스트리가 있거나, 노드가 이미지를 내려받는 환경이라면 [이미지]",
        "직접 빌드한\n\
         이미지를 kind나 CRC에서, 또는 다른 레지스트리에서 설치하려면 [이미지]",
    ),
    told(
        "docs/ko/install.md",
        "docker://REGISTRY/slicewright/slicewright@sha256:DIGEST docker://MIRROR/slicewright/slicewright\n",
        "docker://{prefix}/slicewright@sha256:DIGEST docker://MIRROR/{organisation}/slicewright\n",
    ),
    told(
        "README.md",
        "and images\n\
         that you build yourself ([install]",
        "and images\n\
         ([install]",
    ),
    told(
        "README.md",
        "No images are published yet. On real\n",
        "Each release publishes its images. On real\n",
    ),
    told("docs/ko/README.md", "직접 빌드하는 이미지([설치]", "이미지([설치]"),
    told(
        "docs/ko/README.md",
        "아직 내려받을 수 있는 이미지는 없습니다. 실제\n",
        "이미지는 릴리스마다 공개됩니다. 실제\n",
    ),
    told(
        "docs/tutorial.md",
        "and an image of the operator. Nothing is published yet, so [build the\n\
         \x20 image](guides/images.md#into-a-cluster) and the command (`cargo install --locked --path crates/cli`).\n\
         \x20 `registry.example.com` stands for your registry.",
        "and an image of the operator. The chart knows the image of its version; if you [build the\n\
         \x20 image](guides/images.md#into-a-cluster) yourself, `registry.example.com` stands for your registry, and otherwise leave it\n\
         \x20 out. The command is among the files of the release, or you build it (`cargo install --locked --path crates/cli`).",
    ),
    told(
        "docs/ko/tutorial.md",
        "오퍼레이터 이미지. 아직 공개된 것이 없으므로 [이미지](../guides/images.md#into-a-cluster)와 명령을\n\
         \x20 직접 빌드합니다(`cargo install --locked --path crates/cli`). `registry.example.com`은 여러분의 레지스트리로 바꿔 읽으십시오.",
        "오퍼레이터 이미지. 차트는 해당 버전의 이미지가 어디에 있는지 알고 있습니다. [이미지](../guides/images.md#into-a-cluster)를 직접\n\
         \x20 빌드했다면 `registry.example.com`을 여러분의 레지스트리로 바꿔 읽고, 그렇지 않으면 빼십시오. 명령은 릴리스의 파일에서\n\
         \x20 받거나 직접 빌드합니다(`cargo install --locked --path crates/cli`).",
    ),
    told(
        "docs/guides/olm.md",
        "There is no\n\
         release yet: in the repository, both name",
        "In\n\
         the repository, both name",
    ),
    told(
        "docs/guides/agent.md",
        "As long as no release is\n\
         published, build it and push it to a registry of your own:",
        "The chart knows the\n\
         image of its version, so `--set agent.enabled=true` is enough; to use one of your own, build it and push it to a registry:",
    ),
    told(
        "docs/threat-model.md",
        "- Images have no signatures and no provenance yet, since they are not published.",
        "- The workflow of a release signs its images and attaches where they come from; whether a cluster checks that before it\n\
         \x20 runs them is for its administrators.",
    ),
    told(
        "SECURITY.md",
        "[packaging/project.yaml](packaging/project.yaml) (a placeholder until the project has a home),\n\
         and not in an issue.",
        "[packaging/project.yaml](packaging/project.yaml), and not in\n\
         an issue.",
    ),
    told(
        "SECURITY.md",
        "There is no release yet. Fixes go to the main branch.",
        "The newest release. Fixes go to the main branch, and from there into the next release.",
    ),
    told(
        "docs/packaging.md",
        "holds; nothing is published yet. The files for the community catalogs",
        "holds. The files for the community catalogs",
    ),
    told(
        "docs/packaging.md",
        "it has passed as a whole. Nothing is published yet |",
        "it has passed as a whole |",
    ),
    told(
        "docs/packaging.md",
        "holds; nothing is published yet. The archives for macOS",
        "holds. The archives for macOS",
    ),
    told(
        "docs/guides/images.md",
        "--set image.registry=localhost\n",
        "--set image.registry=localhost --set image.repository=slicewright/slicewright\n",
    ),
    told(
        "docs/guides/agent.md",
        "--set agent.image.registry=REGISTRY\n",
        "--set agent.image.registry=REGISTRY --set agent.image.repository=slicewright/agent\n",
    ),
];

/// The values of the chart.
pub const VALUES: &str = "charts/slicewright/values.yaml";

/// The text of a file once there is a release.
///
/// # Errors
/// When a place has neither what it said before nor what it says afterwards.
pub fn released(file: &str, text: &str, from: Home<'_>, to: Home<'_>) -> Result<String, NoPlace> {
    let mut text = text.to_owned();
    for Told { before, after, .. } in TOLD.iter().filter(|told| told.file == file) {
        let [was, is] = [from, to].map(|home| {
            let (_, organisation) = home.registry.split_once('/').unwrap_or_default();
            after.replace("{prefix}", home.registry).replace("{organisation}", organisation)
        });
        // Either may contain the other: what was said before is looked for first, unless it is a part of the other.
        let first = (!is.contains(before)).then_some(*before);
        let old = first.into_iter().chain([is.as_str(), was.as_str(), before]).find(|old| text.contains(old));
        let old = old.ok_or_else(|| NoPlace::new(file, before))?;
        text = text.replace(old, &is);
    }
    if file == VALUES {
        text = values::published(&text, to.registry).map_err(|line| NoPlace::new(file, line.0))?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command;

    use packaging::project::Project;
    use serde_json::Value;

    use super::*;

    const FIRST: Home<'_> = Home { repository: "https://forge.dev/gpu/cutter", registry: "quay.dev/gpu" };
    const NEXT: Home<'_> = Home { repository: "https://forge.dev/gpu/cutter", registry: "quay.dev/cut" };

    fn read(file: &str) -> String {
        std::fs::read_to_string(packaging::root().join(file))
            .unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    fn files() -> BTreeSet<&'static str> {
        TOLD.iter().map(|told| told.file).chain([VALUES]).collect()
    }

    /// Where this checkout is published, or is not.
    fn now(project: &Project) -> Home<'_> {
        Home { repository: &project.repository, registry: &project.registry }
    }

    #[test]
    fn what_is_said_until_there_is_a_release_is_said_by_none_that_was_made() {
        let project = Project::read().unwrap();
        for file in files() {
            let first = released(file, &read(file), now(&project), FIRST).unwrap();
            for Told { before, after, .. } in TOLD.iter().filter(|told| told.file == file) {
                let after = after.replace("{prefix}", FIRST.registry).replace("{organisation}", "gpu");
                assert!(first.contains(&after), "{file}: {after}");
                assert!(after.contains(before) || !first.contains(before), "{file}: {before}");
            }
            // The release after it changes nothing, or only where images are, if that is another place then.
            assert_eq!(released(file, &first, now(&project), FIRST).unwrap(), first, "{file}");
            let moved = released(file, &first, FIRST, NEXT).unwrap();
            assert_eq!(moved, released(file, &read(file), now(&project), NEXT).unwrap(), "{file}");
        }
        let error = released("SECURITY.md", "another page", FIRST, NEXT).unwrap_err().to_string();
        assert!(error.starts_with("SECURITY.md has no \"") && error.contains("released.rs"), "{error}");
    }

    /// Who writes that there is no release in a file that a release does not know is told here.
    #[test]
    fn no_other_file_says_that_there_is_no_release() {
        let project = Project::read().unwrap();
        let says = [
            "published yet",
            "no release is",
            "no release yet",
            "release exists yet",
            "until images are published",
            "until there is a release",
            "since they are not published",
            "release will have",
            "아직 공개된",
            "아직 내려받을",
        ];
        let mut grep = vec!["grep", "-I", "-l", "-i", "-F"];
        grep.extend(says.iter().flat_map(|words| ["-e", words]));
        // The history, what other people said, and the tests of it; the chart's README is generated.
        grep.extend(["--", ".", ":!CHANGELOG.md", ":!*.rs", ":!charts/slicewright/README.md"]);
        let output = Command::new("git").args(grep).current_dir(packaging::root()).output().unwrap();
        let found = String::from_utf8(output.stdout).unwrap();
        for file in found.lines() {
            let text = released(file, &read(file), now(&project), FIRST).unwrap().to_lowercase();
            let left: Vec<&str> =
                says.into_iter().filter(|words| text.contains(&words.to_lowercase())).collect();
            assert!(left.is_empty(), "{file} still says {left:?} when there is a release: add it to TOLD");
        }
    }

    #[test]
    fn the_values_of_a_released_checkout_say_where_its_images_are() {
        let project = Project::read().unwrap();
        let text = released(VALUES, &read(VALUES), now(&project), FIRST).unwrap();
        let values: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(values["image"]["registry"], "quay.dev");
        assert_eq!(values["image"]["repository"], "gpu/slicewright");
        assert_eq!(values["agent"]["image"]["registry"], "", "the operator's");
        assert_eq!(values["agent"]["image"]["repository"], "gpu/agent");
        assert_eq!(values::publisher(&text).as_deref(), Some("quay.dev/gpu"));
    }

    /// The two languages are told the same, as far as a program can see it.
    #[test]
    fn what_a_release_writes_into_a_korean_page_has_the_code_of_the_english_one() {
        let code = |file: &str| -> BTreeSet<String> {
            let of = TOLD.iter().filter(|told| told.file == file);
            let words = of.flat_map(|told| told.after.split('`').skip(1).step_by(2));
            words.map(|words| words.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        };
        for (english, korean) in [
            ("README.md", "docs/ko/README.md"),
            ("docs/guides/install.md", "docs/ko/install.md"),
            ("docs/tutorial.md", "docs/ko/tutorial.md"),
        ] {
            assert!(files().contains(english) && files().contains(korean), "{english}");
            assert_eq!(code(english), code(korean), "{english} and {korean}");
        }
    }
}
