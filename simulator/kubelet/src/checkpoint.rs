//! The checkpoint file, as kubelet writes it: one JSON document, replaced by a rename.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::books::{Books, Container, Pod};

fn entries(pod: &Pod, container: &Container) -> Vec<Value> {
    let entry = |(resource, ids): (&String, &std::collections::BTreeSet<String>)| {
        json!({
            "PodUID": pod.uid, "ContainerName": container.name, "ResourceName": resource,
            "DeviceIDs": {"-1": ids}, "AllocResp": "CgA=",
        })
    };
    container.devices.iter().map(entry).collect()
}

pub(crate) fn render(books: &Books) -> String {
    let recorded = |pod: &Pod| -> Vec<Value> {
        pod.containers.iter().filter(|one| one.recorded).flat_map(|one| entries(pod, one)).collect()
    };
    let pods: Vec<_> = books.pods.iter().flat_map(recorded).collect();
    let registered: BTreeMap<_, _> = books.healthy.iter().collect();
    let pods = if pods.is_empty() { Value::Null } else { json!(pods) };
    json!({"Data": {"PodDeviceEntries": pods, "RegisteredDevices": registered}, "Checksum": 2_718_281_828_u32})
        .to_string()
}

pub(crate) fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(new, path)
}
