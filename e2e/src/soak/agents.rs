//! The agents of a soak. They are killed and start anew, go down with their nodes, are uninstalled for a while, and only
//! report for a while. Some of the nodes have none.

use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::core::v1::Node;

use super::node_agent::NodeAgent;
use super::state::Soak;
use crate::{Scene, wait};

/// The nodes with an agent, and whether it may change slices when all is well.
const AGENTS: [(&str, bool); 3] = [("a1", true), ("a3", false), ("h1", true)];
/// A reboot takes minutes there, which are seconds here.
const PATIENCE: Duration = Duration::from_secs(120);

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.filter(|condition| condition.type_ == "Ready").any(|condition| condition.status == "True")
}

impl Soak {
    pub(super) async fn agents_begin(&mut self, scene: &mut Scene) -> anyhow::Result<()> {
        scene.agents_are_installed().await?;
        for (name, changes) in AGENTS {
            self.agents.insert(name, NodeAgent { changes, ..NodeAgent::default() });
        }
        self.agents_are_up(scene).await
    }

    pub(super) fn has_agents(&self) -> bool {
        !self.agents.is_empty()
    }

    /// Something happens to an agent; says what.
    pub(super) async fn agent(&mut self, scene: &mut Scene) -> anyhow::Result<String> {
        let (name, _) = self.one_of(&AGENTS).context("there are agents")?;
        let kind = self.below(6);
        let agent = self.agents.get_mut(name).context("it has one")?;
        agent.dies().await?;
        Ok(match kind {
            // As often as all others together: at whatever it is.
            0..3 => {
                self.agents_follow(scene).await?;
                format!("the agent of {name} is killed, and starts anew")
            }
            3 => {
                agent.away = 3;
                format!("the agent of {name} is killed, and starts anew later")
            }
            4 => {
                agent.away = 6;
                // It may be so already.
                let gone = scene.agent_is_uninstalled(name).await.is_err();
                format!(
                    "the agent of {name} is uninstalled for a while{}",
                    if gone { " (it was)" } else { "" }
                )
            }
            _ => {
                agent.changes = !agent.changes;
                let what = if agent.changes { "may change slices" } else { "only reports" };
                self.agents_follow(scene).await?;
                format!("the agent of {name} {what} from now on")
            }
        })
    }

    /// Its machine is switched off.
    pub(super) async fn agent_goes_down(&mut self, scene: &Scene, name: &str) -> anyhow::Result<()> {
        if let Some(agent) = self.agents.get_mut(name) {
            agent.dies().await?;
            agent.boot = scene.simulator().books(name)?.boot_id;
            agent.is_down = true;
        }
        Ok(())
    }

    /// Its machine is replaced by another one.
    pub(super) async fn agent_goes_with_its_node(
        &mut self,
        scene: &mut Scene,
        name: &str,
    ) -> anyhow::Result<()> {
        if let Some(agent) = self.agents.get_mut(name) {
            agent.dies().await?;
            agent.is_down = false;
            scene.agent_has_no_machine(name);
        }
        Ok(())
    }

    /// Another event has happened.
    pub(super) async fn agents_go_on(&mut self, scene: &mut Scene) -> anyhow::Result<()> {
        self.agents.values_mut().for_each(|agent| agent.away = agent.away.saturating_sub(1));
        self.agents_follow(scene).await
    }

    /// Agents whose nodes have booted anew start, and so does who was killed.
    async fn agents_follow(&mut self, scene: &mut Scene) -> anyhow::Result<()> {
        for (name, agent) in &mut self.agents {
            let Ok(books) = scene.simulator().books(name) else { continue };
            if agent.runs.is_some() && agent.boot != books.boot_id {
                agent.dies().await?;
                agent.is_down = false;
            }
            if agent.is_down && agent.boot != books.boot_id {
                agent.is_down = false;
            }
            let node = scene.nodes().get_opt(name).await?;
            let is_up = !agent.is_down
                && agent.away == 0
                && node.as_ref().is_some_and(is_ready)
                && scene.agent_may_start(name)?;
            if agent.runs.is_none() && is_up {
                agent.boot = books.boot_id;
                agent.runs = Some(match agent.changes {
                    true => scene.agent_that_changes(name).await?,
                    false => scene.agent_on(name).await?,
                });
            }
        }
        Ok(())
    }

    /// Every agent runs, and may do what it may when all is well.
    pub(super) async fn agents_are_up(&mut self, scene: &mut Scene) -> anyhow::Result<()> {
        for (name, changes) in AGENTS {
            let Some(agent) = self.agents.get_mut(name) else { continue };
            agent.away = 0;
            if agent.changes != changes {
                agent.dies().await?;
                agent.changes = changes;
            }
        }
        wait::asking("every agent runs", PATIENCE, async || {
            self.agents_follow(scene).await?;
            let away = self.agents.iter().find(|(_, agent)| agent.runs.is_none());
            Ok(away.map_or(Ok(()), |(name, _)| Err(format!("that of {name} does not"))))
        })
        .await
    }
}
