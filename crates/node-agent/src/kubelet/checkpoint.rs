//! Kubelet's device-manager checkpoint: which container of which pod uid was given which device. It has what
//! `List` leaves out (init containers, uids), and it keeps pods that have ended.
//!
//! The file is kubelet's own and has no version. So nothing is guessed: what is not exactly as expected makes the
//! whole book unreadable, and then no slice counts as free. Its checksum is of Go's own dump of the structure and is
//! not verified; kubelet replaces the file with a rename, so that nobody reads half of it.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use agent::{Device, DeviceId, PodUid, Recorded};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Larger is no checkpoint: one of a thousand containers has some hundred kilobytes.
const LARGEST: u64 = 16 << 20;

/// Why the checkpoint cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// It is not there.
    #[error(
        "there is no checkpoint {}: no device plugin has registered since kubelet was installed, or kubelet keeps it elsewhere (--checkpoint)",
        path.display()
    )]
    Missing {
        /// Where it should be.
        path: PathBuf,
    },
    /// It cannot be opened or read.
    #[error("the checkpoint {} cannot be read", path.display())]
    Unreadable {
        /// Where it is.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// It is larger than any.
    #[error("the checkpoint {} has more than {LARGEST} bytes, which no kubelet writes", path.display())]
    TooLarge {
        /// Where it is.
        path: PathBuf,
    },
    /// It is not what kubelet writes.
    #[error("the checkpoint {} is not one that this agent can read: its kubelet may be newer", path.display())]
    Malformed {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct File {
    data: Data,
    // It is required, so that some other JSON is not taken for a checkpoint.
    #[expect(dead_code, reason = "that it is there is all that is asked")]
    checksum: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Data {
    pod_device_entries: Option<Vec<Entry>>,
    #[expect(dead_code, reason = "that it is there is all that is asked")]
    registered_devices: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(rename = "PodUID")]
    pod: String,
    #[serde(rename = "ContainerName")]
    container: String,
    #[serde(rename = "ResourceName")]
    resource: String,
    /// By NUMA node.
    #[serde(rename = "DeviceIDs")]
    devices: Option<BTreeMap<String, Option<Vec<String>>>>,
    #[serde(rename = "AllocResp", default)]
    #[expect(dead_code, reason = "what the plugin answered is nobody's concern")]
    answer: IgnoredAny,
}

/// Reads the checkpoint.
///
/// # Errors
/// It is not there, or not what kubelet writes.
pub fn read(path: &Path) -> Result<Vec<Recorded>, CheckpointError> {
    let unreadable = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound => CheckpointError::Missing { path: path.to_owned() },
        _ => CheckpointError::Unreadable { path: path.to_owned(), source },
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST {
        return Err(CheckpointError::TooLarge { path: path.to_owned() });
    }
    parse(&bytes).map_err(|source| CheckpointError::Malformed { path: path.to_owned(), source })
}

/// What a checkpoint says, container by container.
///
/// # Errors
/// It is not what kubelet writes.
pub fn parse(bytes: &[u8]) -> Result<Vec<Recorded>, serde_json::Error> {
    let file: File = serde_json::from_slice(bytes)?;
    let mut all: BTreeMap<(String, String), Vec<Device>> = BTreeMap::new();
    for Entry { pod, container, resource, devices, answer: _ } in
        file.data.pod_device_entries.into_iter().flatten()
    {
        let ids = devices.into_iter().flatten().flat_map(|(_, ids)| ids.into_iter().flatten());
        let devices = ids.map(|id| Device { resource: resource.clone(), id: DeviceId(id) });
        all.entry((pod, container)).or_default().extend(devices);
    }
    let recorded = |((pod, container), devices)| Recorded { pod: PodUid(pod), container, devices };
    Ok(all.into_iter().map(recorded).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As kubelet 1.36 wrote it, shortened.
    const WRITTEN: &str = r#"{"Data":{"PodDeviceEntries":[
        {"PodUID":"8e1b","ContainerName":"notebook","ResourceName":"nvidia.com/mig-3g.40gb",
         "DeviceIDs":{"0":["MIG-a"],"-1":["MIG-b"]},"AllocResp":"CikKC0ZPTw=="},
        {"PodUID":"8e1b","ContainerName":"notebook","ResourceName":"example.com/nic","DeviceIDs":{"-1":["nic0"]},"AllocResp":null},
        {"PodUID":"8e1b","ContainerName":"prepare","ResourceName":"nvidia.com/mig-3g.40gb","DeviceIDs":null,"AllocResp":null}],
        "RegisteredDevices":{"nvidia.com/mig-3g.40gb":["MIG-a","MIG-b"]}},"Checksum":1843172303}"#;

    #[test]
    fn each_container_has_its_devices_of_all_resources_and_numa_nodes() {
        let book = parse(WRITTEN.as_bytes()).unwrap();
        let told: Vec<_> = book
            .iter()
            .map(|one| {
                let ids: Vec<_> = one.devices.iter().map(|device| device.id.0.as_str()).collect();
                format!("{} {}: {}", one.pod, one.container, ids.join(" "))
            })
            .collect();
        assert_eq!(told, ["8e1b notebook: MIG-b MIG-a nic0", "8e1b prepare: "]);
        assert_eq!(book[0].devices[0].resource, "nvidia.com/mig-3g.40gb");
    }

    #[test]
    fn a_kubelet_that_gave_nothing_away_yet_has_an_empty_book() {
        let empty = r#"{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}"#;
        assert_eq!(parse(empty.as_bytes()).unwrap(), []);
        let newer = r#"{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1,"BootID":"b"}"#;
        assert_eq!(parse(newer.as_bytes()).unwrap(), [], "a field beside the data says nothing of devices");
    }

    /// An entry that is read in part would leave a holder out.
    #[test]
    fn what_is_not_exactly_a_checkpoint_is_none() {
        let whole = WRITTEN.to_owned();
        for (wrong, why) in [
            (String::new(), "nothing"),
            ("{}".to_owned(), "some other JSON"),
            (whole[..whole.len() / 2].to_owned(), "half of it"),
            (
                whole.replace(
                    "\"DeviceIDs\":{\"0\":[\"MIG-a\"],\"-1\":[\"MIG-b\"]}",
                    "\"DeviceIDs\":[\"MIG-a\"]",
                ),
                "the form of before 1.20",
            ),
            (whole.replace("PodUID", "PodUid"), "an entry without its pod"),
            (whole.replace("\"ContainerName\":\"notebook\",", ""), "an entry without its container"),
            (
                whole.replace("\"PodUID\":\"8e1b\"", "\"PodUID\":\"8e1b\",\"Moved\":true"),
                "a field that may change the meaning",
            ),
            (whole.replace("\"RegisteredDevices\"", "\"Also\":[],\"RegisteredDevices\""), "a second list"),
            (format!("{whole}{whole}"), "two of them"),
            ("[".repeat(100_000), "a tower of brackets"),
        ] {
            assert!(parse(wrong.as_bytes()).is_err(), "{why}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_or_too_large_is_told_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubelet_internal_checkpoint");
        let missing = read(&path).unwrap_err().to_string();
        assert!(
            missing.contains(&path.display().to_string()) && missing.contains("--checkpoint"),
            "{missing}"
        );
        std::fs::File::create(&path).unwrap().set_len(LARGEST + 1).unwrap();
        assert!(matches!(read(&path), Err(CheckpointError::TooLarge { .. })));
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(read(&path), Err(CheckpointError::Unreadable { .. })), "a folder");
    }
}
