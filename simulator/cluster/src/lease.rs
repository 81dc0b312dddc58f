//! A node's heartbeat: its lease, which the node lifecycle controller checks. While the node is down it is
//! not renewed. Heartbeats are in real time, since the controller that checks them is real.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::clock::real_now;
use crate::error::is;
use crate::kept::Kept;
use crate::setup::create;
use crate::shared::Shared;

const NAMESPACE: &str = "kube-node-lease";
/// As the kubelet does: a quarter of the lease.
const EVERY: Duration = Duration::from_secs(10);
/// While the Node object is not there yet.
const SOON: Duration = Duration::from_millis(200);

/// Renews the lease of a node until it is taken away.
pub(crate) async fn renew(shared: Arc<Shared>, kept: Arc<Kept>) {
    let api: Api<Lease> = Api::namespaced(shared.client.clone(), NAMESPACE);
    loop {
        let (uid, ready) = kept.with(|host| (host.uid(), host.node.ready()));
        let mut wait = EVERY;
        match uid {
            None => wait = SOON,
            Some(uid) if ready => {
                let result = tokio::time::timeout(EVERY, renew_once(&api, &kept.name, &uid)).await;
                if !matches!(result, Ok(Ok(()))) {
                    wait = Duration::from_secs(1);
                }
            }
            Some(_) => wait = Duration::from_secs(1),
        }
        tokio::select! {
            () = kept.stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

async fn renew_once(api: &Api<Lease>, name: &str, uid: &str) -> kube::Result<()> {
    let renewed = json!({"spec": {"renewTime": format!("{:.6}", real_now())}});
    match api.patch(name, &PatchParams::default(), &Patch::Merge(&renewed)).await {
        Err(error) if is(&error, 404) => {
            let lease = json!({
                "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}]},
                "spec": {"holderIdentity": name, "leaseDurationSeconds": 40,
                    "renewTime": renewed["spec"]["renewTime"]},
            });
            let lease = serde_json::from_value(lease).expect("a lease is built from the parts of one");
            create(api, &lease).await.map(drop)
        }
        other => other.map(drop),
    }
}
