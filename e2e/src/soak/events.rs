//! The possible events.

use std::collections::BTreeMap;

use crate::etcd::Versions;
use crate::weather::Weather;
use crate::{NodeSpec, Scene, TEAM, mig, pod, policy, workbench};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use super::state::{POLICY, Soak};
use super::tenants;

/// What people ask for, often and seldom.
const MENU: &[&str] = &[
    "1g.10gb", "1g.10gb", "1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", "1g.6gb",
    "2g.12gb",
];
/// More who wait say nothing more.
const MOST_PODS: usize = 24;
/// What goes wrong on a node.
const FAULTS: &[&str] = &[
    "does-not-stop device-plugin",
    "does-not-start device-plugin",
    "validator-never-ready",
    "cdi-fails",
    "plugin-never-registers",
    "gfd-lags 90s",
    "create-fails 2",
    "create-fails",
    "uncordon",
];

impl Soak {
    /// Something happens; says what.
    pub(crate) async fn event(&mut self, scene: &mut Scene) -> anyhow::Result<String> {
        // Where there are agents or sharers, some more can happen; without, a seed has the events that it always had.
        let kinds = match (self.shares, self.has_agents()) {
            (true, _) => 140,
            (false, true) => 108,
            (false, false) => 100,
        };
        let (kind, what) = match self.below(kinds) {
            0..30 => ("arrival", self.arrival(scene).await?),
            30..52 => ("end", self.end(scene).await?),
            52..64 => ("workbench", self.workbench(scene).await?),
            64..72 => ("fault", self.fault(scene)?),
            72..79 => ("repair", self.repair(scene)?),
            79..82 => ("reboot", self.reboot(scene).await?),
            82..87 => ("edit", self.edit(scene).await?),
            87..89 => ("kill", self.kill(scene).await?),
            89..90 => ("restart", self.restart(scene).await?),
            90..95 => ("weather", self.weather(scene)),
            95..97 => ("clock", self.set_clock()),
            100..108 if self.has_agents() => ("agent", self.agent(scene).await?),
            100.. => ("sharing", self.sharing(scene).await?),
            _ => ("etcd", self.etcd(scene).await?),
        };
        *self.counts.entry(kind).or_default() += 1;
        Ok(what)
    }

    fn name(&mut self, what: &str) -> String {
        self.named += 1;
        format!("{what}-{}", self.named)
    }

    async fn arrival(&mut self, scene: &Scene) -> anyhow::Result<String> {
        if self.pods.len() >= MOST_PODS {
            return self.end(scene).await;
        }
        let profile = self.one_of(MENU).unwrap_or("1g.10gb");
        let count = if self.below(8) == 0 { 2 } else { 1 };
        let opens = self.one_of(&["never", "never", "at-once", "30s"]).unwrap_or("never");
        let name = self.name("pod");
        let object = pod(&name, &mig(profile), count).annotated("sim.slicewright.io/opens", opens);
        let object = object.in_namespace(tenants::namespace_of(&name));
        scene.apply(object).await?;
        self.pods.insert(name.clone());
        Ok(format!("{name} asks for {count} x {profile} and opens it {opens}"))
    }

    async fn end(&mut self, scene: &Scene) -> anyhow::Result<String> {
        let pods: Vec<String> = self.pods.iter().cloned().collect();
        let Some(name) = self.one_of(&pods) else { return Ok("nobody is there to end".to_owned()) };
        self.pods.remove(&name);
        // One that ended by itself may be gone.
        let gone = scene.delete(tenants::named(&name)).await.is_err();
        Ok(format!("{name} ends{}", if gone { " (it was gone)" } else { "" }))
    }

    async fn workbench(&mut self, scene: &Scene) -> anyhow::Result<String> {
        let names: Vec<String> = self.workbenches.keys().cloned().collect();
        if names.len() < 3 {
            let profile = self.one_of(MENU).unwrap_or("1g.10gb");
            let name = self.name("bench");
            scene.apply(workbench(&name, &mig(profile), 1)).await?;
            self.workbenches.insert(name.clone(), false);
            return Ok(format!("workbench {name} asks for {profile}"));
        }
        let name = self.one_of(&names).unwrap_or_default();
        let object = json!({"apiVersion": "kubeflow.org/v1", "kind": "Notebook",
            "metadata": {"name": name, "namespace": TEAM}});
        if self.below(3) == 0 {
            scene.delete(object).await?;
            self.workbenches.remove(&name);
            return Ok(format!("workbench {name} is deleted"));
        }
        let stopped = !self.workbenches.get(&name).copied().unwrap_or_default();
        let since = stopped.then_some("2026-11-20T18:00:00Z");
        let patch = json!({"metadata": {"annotations": {"kubeflow-resource-stopped": since}}});
        scene.patch(object, patch).await?;
        self.workbenches.insert(name.clone(), stopped);
        Ok(format!("workbench {name} is {}", if stopped { "stopped" } else { "started" }))
    }

    fn node(&mut self) -> (&'static str, NodeSpec) {
        let nodes: Vec<_> = self.fleet.iter().map(|(name, spec)| (*name, spec.clone())).collect();
        self.one_of(&nodes).expect("the fleet has nodes")
    }

    fn fault(&mut self, scene: &Scene) -> anyhow::Result<String> {
        let (name, _) = self.node();
        let fault = self.one_of(FAULTS).unwrap_or("cdi-fails");
        scene.simulator().turn(name, fault)?;
        Ok(format!("{name}: {fault}"))
    }

    fn repair(&mut self, scene: &Scene) -> anyhow::Result<String> {
        let (name, _) = self.node();
        scene.simulator().clear(name)?;
        Ok(format!("{name}: nothing goes wrong any more"))
    }

    async fn reboot(&mut self, scene: &Scene) -> anyhow::Result<String> {
        let (name, _) = self.node();
        self.agent_goes_down(scene, name).await?;
        scene.simulator().reboot(name)?;
        Ok(format!("{name} reboots"))
    }

    async fn edit(&mut self, scene: &Scene) -> anyhow::Result<String> {
        let mode = self.one_of(&["Enforce", "Enforce", "Enforce", "Preview", "Paused"]).unwrap_or("Enforce");
        let at_a_time = 1 + self.below(2);
        let (floor, spare) = (self.below(4), self.below(3));
        let unrequested = self.one_of(&["Keep", "Whole"]).unwrap_or("Keep");
        self.most_away = self.most_away.max(at_a_time);
        let edited = policy(POLICY, "research")
            .bounds("1g.10gb", &json!({"minCount": floor, "spareCount": spare}))
            .spec("/layout/demandDriven/unrequested", unrequested)
            .at_a_time(u32::try_from(at_a_time)?)
            .mode(mode);
        scene.apply(edited).await?;
        Ok(format!(
            "the policy is {mode}, {at_a_time} at a time, 1g.10gb at least {floor} and {spare} spare, unrequested {unrequested}"
        ))
    }

    fn weather(&mut self, scene: &Scene) -> String {
        let weather = self.one_of(&Weather::ALL).unwrap_or_default();
        scene.operators().iter().for_each(|operator| operator.wire().turns(weather));
        format!("the way to the API server is {weather:?}")
    }

    fn set_clock(&mut self) -> String {
        let by = SignedDuration::from_hours(if self.below(2) == 0 { 1 } else { -1 });
        self.clock.moves(by);
        format!("the operator's clock is set by {by:#}")
    }

    /// Somebody copies etcd's data, and later puts them back.
    async fn etcd(&mut self, scene: &mut Scene) -> anyhow::Result<String> {
        let Some(copy) = self.copy.take() else {
            self.copies += 1;
            self.layouts = layouts(scene).await?;
            self.copy = Some(scene.copy_etcd(&format!("soak-{}", self.copies)).await?);
            return Ok("etcd's data are copied".to_owned());
        };
        // MIG manager and the device plugin go back to the label that is put back, under pods of which the API knows
        // nothing then. No operator can keep them from that (docs/runbooks/SlicewrightDataWentBack.md): seen with nodes
        // that go from agents to MIG manager and back.
        if (self.has_agents() || self.shares) && self.layouts != layouts(scene).await? {
            return Ok(
                "etcd's data are not put back: an operand of a node was told otherwise since".to_owned()
            );
        }
        let versions = self.one_of(&[Versions::AsTheyWere, Versions::Raised]).unwrap_or(Versions::Raised);
        scene.put_back_etcd(&copy, versions).await?;
        self.look_who_is_there(scene).await?;
        Ok(format!("etcd's data of before are put back ({versions:?})"))
    }

    async fn kill(&mut self, scene: &mut Scene) -> anyhow::Result<String> {
        scene.kill_operators();
        scene.operator_again().await?;
        Ok("the operator is killed, and another one starts".to_owned())
    }

    async fn restart(&mut self, scene: &mut Scene) -> anyhow::Result<String> {
        scene.stop_operators().await?;
        scene.operator_again().await?;
        Ok("the operator is stopped and started".to_owned())
    }
}

/// What the operands of each node are told: its layout, and how it is shared.
async fn layouts(scene: &Scene) -> anyhow::Result<BTreeMap<String, [Option<String>; 2]>> {
    let nodes = scene.nodes().list(&ListParams::default()).await?;
    let told = |node: &Node| {
        ["nvidia.com/mig.config", "nvidia.com/device-plugin.config"]
            .map(|key| node.labels().get(key).cloned())
    };
    Ok(nodes.iter().map(|node| (node.name_any(), told(node))).collect())
}
