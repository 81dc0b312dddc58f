//! A pool of T4s in a soak: by how many pods each is shared goes up and down, on and off, while pods that have a share, or
//! a GPU for themselves, come and go. That no two of them share one unawares is part of what the simulator counts.

use serde_json::json;

use crate::manifests::Policy;
use crate::{Scene, pod, policy, wait};

use super::checks::PATIENCE;
use super::state::{Soak, shared};
use super::tenants::{named, namespace_of};

/// The policy that shares them.
const POLICY: &str = "soak-shares";
/// More who wait say nothing more.
const MOST: usize = 10;

/// Each GPU is for so many; nobody shares one if it is for one.
fn by(replicas: u32) -> Policy {
    let rules = json!([{"model": "T4", "resource": "nvidia.com/gpu", "replicas": replicas}]);
    let sharing = match replicas {
        ..2 => json!({"type": "None"}),
        2.. => json!({"type": "TimeSlicing", "rules": rules}),
    };
    policy(POLICY, "notebooks").spec("/layout", json!({"type": "None"})).spec("/sharing", sharing)
}

impl Soak {
    /// The pool is shared by four.
    pub(super) async fn sharing_begins(&mut self, scene: &Scene) -> anyhow::Result<()> {
        scene.apply(by(4)).await?;
        scene.says(POLICY, "Degraded", "True", "PluginMapNotOurs").await?;
        self.points_to(scene, "slicewright-plugin-config").await?;
        for (name, _) in shared() {
            scene.offers_resources(name, &[("nvidia.com/gpu.shared", 8)]).await?;
        }
        self.shares = true;
        Ok(())
    }

    async fn points_to(&self, scene: &Scene, map: &str) -> anyhow::Result<()> {
        let settings = json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy",
            "metadata": {"name": "gpu-cluster-policy"}});
        scene.patch(settings, json!({"spec": {"devicePlugin": {"config": {"name": map}}}})).await
    }

    /// Something happens in the pool; says what.
    pub(super) async fn sharing(&mut self, scene: &Scene) -> anyhow::Result<String> {
        match self.below(12) {
            0..5 if self.sharers.len() < MOST => self.sharer(scene).await,
            0..8 => self.sharer_goes(scene).await,
            8..11 => {
                let replicas = self.one_of(&[1, 2, 4, 6]).unwrap_or(4);
                scene.apply(by(replicas)).await?;
                Ok(format!("each T4 is to be for {replicas}"))
            }
            _ => {
                // The plugin finds no key there. (Without any map it would offer whole GPUs under those who share them.)
                self.points_to(scene, "elsewhere").await?;
                self.pause(2_000).await;
                self.points_to(scene, "slicewright-plugin-config").await?;
                Ok("ClusterPolicy points the device plugin elsewhere, and to our map again".to_owned())
            }
        }
    }

    async fn sharer(&mut self, scene: &Scene) -> anyhow::Result<String> {
        let asks = self.one_of(&["nvidia.com/gpu.shared", "nvidia.com/gpu.shared", "nvidia.com/gpu"]);
        let asks = asks.unwrap_or("nvidia.com/gpu");
        self.named += 1;
        let name = format!("seat-{}", self.named);
        scene.apply(pod(&name, asks, 1).in_namespace(namespace_of(&name))).await?;
        self.sharers.insert(name.clone());
        Ok(format!("{name} asks for {asks}"))
    }

    async fn sharer_goes(&mut self, scene: &Scene) -> anyhow::Result<String> {
        let all: Vec<String> = self.sharers.iter().cloned().collect();
        let Some(name) = self.one_of(&all) else { return Ok("nobody is there to leave a T4".to_owned()) };
        self.sharers.remove(&name);
        let gone = scene.delete(named(&name)).await.is_err();
        Ok(format!("{name} ends{}", if gone { " (it was gone)" } else { "" }))
    }

    /// Whoever is there goes, so that the pool can come to rest.
    pub(super) async fn sharers_go(&mut self, scene: &Scene) -> anyhow::Result<()> {
        if !self.shares {
            return Ok(());
        }
        for name in std::mem::take(&mut self.sharers) {
            // One that ended by itself may be gone.
            let _ = scene.delete(named(&name)).await;
        }
        wait::asking("nobody has a T4", PATIENCE, async || {
            let pods = scene.pods_of_tenants().await?;
            let left = pods.iter().filter_map(|pod| pod.metadata.name.clone());
            let left: Vec<String> = left.filter(|name| name.starts_with("seat-")).collect();
            Ok(if left.is_empty() { Ok(()) } else { Err(format!("{left:?} are there")) })
        })
        .await?;
        scene.apply(by(4)).await
    }
}
