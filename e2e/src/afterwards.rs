//! Checks after every scenario: no slice was taken from a pod, no node stays cordoned or paused without a
//! message, the operator requested nothing beyond its permissions, planning again changes nothing, and every status
//! that was ever written is interpreted correctly by tools that wait for it.

use std::collections::BTreeSet;

use anyhow::{Context, bail, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use crate::audit::{Object, Request};
use crate::expect::{is_cordoned, is_of_a_scenario, paused_by_us};
use crate::objects::{self, GPU_OPERATOR_NAMESPACE, OPERATOR_NAMESPACE};
use crate::queue::{CONTROLLER, kueue};
use crate::readable::{named_in_object, named_in_text};
use crate::scene::Scene;
use crate::wait::{self, PATIENCE, until};

/// How often in a row nothing new is found, until nothing more is expected:
/// about two of the operator's own waits.
const QUIET: u32 = 16;
/// Phases in which a node rests.
const AT_REST: &[&str] = &["", "Idle", "Failed", "Released"];
/// How the API server knows us as the writer of a field.
const OUR_MANAGERS: &str = "slicewright-";

/// What of a policy we wrote though it is its author's: everything but the
/// status.
fn theirs(object: &Value) -> Option<String> {
    if object["kind"] != "GpuPartitionPolicy" {
        return None;
    }
    let managed = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let ours = managed.filter(|m| m["manager"].as_str().is_some_and(|m| m.starts_with(OUR_MANAGERS)));
    let fields: Vec<_> = ours.flat_map(|m| m["fieldsV1"].as_object().into_iter().flatten()).collect();
    if fields.is_empty() {
        return Some("the API server knows no field of it as ours, the status neither".to_owned());
    }
    let wrong: Vec<_> = fields.into_iter().filter(|(field, _)| *field != "f:status").collect();
    (!wrong.is_empty()).then(|| format!("the operator wrote what is not its own: {wrong:?}"))
}

/// Whether a write to a hardware profile leaves its spec as it is: OpenShift AI would write another one
/// into running workbenches.
fn is_no_change_of_a_spec(write: &Request) -> anyhow::Result<()> {
    let body = write.request_object.as_ref().context("the audit log has no body of a write")?;
    let written: Vec<&String> = body.as_object().into_iter().flat_map(serde_json::Map::keys).collect();
    let annotations = body["metadata"].as_object().map_or(0, serde_json::Map::len);
    let is_annotation =
        written == ["metadata"] && annotations == 2 && body["metadata"]["annotations"].is_object();
    ensure!(
        write.verb == "create" || write.verb == "patch" && is_annotation,
        "the operator changed more of a hardware profile than its annotations: {write} {body}"
    );
    Ok(())
}

impl Scene {
    /// Looks at all of it.
    pub(crate) async fn afterwards(&mut self) -> anyhow::Result<()> {
        if self.had_operators() {
            for operator in self.operators() {
                operator.is_well()?;
            }
            self.is_quiet().await?;
            self.plans_again_in_vain().await?;
        }
        self.nothing_was_taken()?;
        self.nobody_reads_of_other_namespaces().await?;
        self.nobody_is_cordoned_in_silence().await?;
        self.every_status_reads_right()?;
        self.nothing_was_refused()
    }

    /// Not only the last one: a tool that waits may look at any moment.
    fn every_status_reads_right(&self) -> anyhow::Result<()> {
        if !self.is_audited() {
            return Ok(());
        }
        let judges = gitops::Judges::shipped();
        let mut problems = BTreeSet::new();
        for object in self.audit()?.objects()? {
            let (verdict, found) = gitops::judged(&judges, &object);
            let found = found.iter().map(ToString::to_string).chain(theirs(&object));
            let name = format!("{} {}", object["kind"], object["metadata"]["name"]);
            let of = |problem| format!("{name} ({verdict:?}): {problem}: {}", object["status"]["conditions"]);
            problems.extend(found.map(of));
        }
        ensure!(problems.is_empty(), "statuses that do not read right: {problems:#?}");
        Ok(())
    }

    /// What the operator writes into the namespaces of people is events, the
    /// entries of its checks in what waits in queues, and hardware profiles; none of them names a pod of another namespace:
    /// all that a tenant can read of others.
    async fn nobody_reads_of_other_namespaces(&self) -> anyhow::Result<()> {
        if !self.is_audited() {
            return Ok(());
        }
        let all = Api::<Namespace>::all(self.client()).list(&ListParams::default()).await?;
        let namespaces: BTreeSet<String> = all.items.iter().map(ResourceExt::name_any).collect();
        // Names alone: those of the cluster's own namespaces, such as `default`, are words like any others.
        let of_the_cluster = |name: &str| {
            [OPERATOR_NAMESPACE, GPU_OPERATOR_NAMESPACE, "default"].contains(&name)
                || name.starts_with("kube-")
        };
        let of_people: BTreeSet<String> =
            namespaces.iter().filter(|name| !of_the_cluster(name)).cloned().collect();
        for write in self.audit()?.writes()? {
            let Object { resource, subresource, namespace, .. } = &write.object_ref;
            let ours =
                [OPERATOR_NAMESPACE, GPU_OPERATOR_NAMESPACE, "default", ""].contains(&namespace.as_str());
            if ours || write.response_status.code >= 400 || subresource == "eviction" {
                continue;
            }
            if write.verb == "delete" && resource == "hardwareprofiles" {
                continue;
            }
            let body = write.request_object.as_ref().context("the audit log has no body of a write")?;
            let notes = match (resource.as_str(), subresource.as_str()) {
                ("events", _) => vec![&body["note"]],
                ("hardwareprofiles", "") => {
                    is_no_change_of_a_spec(&write)?;
                    let named = named_in_object(body, namespace, &of_people);
                    ensure!(named.is_none(), "a hardware profile tells everybody of {named:?}: {body}");
                    continue;
                }
                ("workloads", "status") => {
                    let only = body["status"].as_object().filter(|status| status.len() == 1);
                    let checks = only.and_then(|status| status.get("admissionChecks")?.as_array());
                    let checks = checks.context("the operator wrote more than its checks into a workload")?;
                    let theirs = self.checks_of_others().await?;
                    let is_theirs =
                        |check: &&Value| check["name"].as_str().is_none_or(|n| theirs.contains(n));
                    let written = checks.iter().find(is_theirs);
                    ensure!(
                        written.is_none(),
                        "the operator wrote the check of somebody else: {write} {body}"
                    );
                    checks.iter().map(|check| &check["message"]).collect()
                }
                _ => bail!("the operator wrote {write} into a namespace of people"),
            };
            for note in notes {
                let note = note.as_str().unwrap_or_default();
                let named = named_in_text(note, namespace, &namespaces);
                ensure!(named.is_none(), "{namespace} reads of {named:?}: {note}");
            }
        }
        Ok(())
    }

    /// The admission checks that others answer; none where a scenario has taken Kueue's kinds away again.
    async fn checks_of_others(&self) -> anyhow::Result<BTreeSet<String>> {
        let like = kueue("AdmissionCheck", "any", json!({}));
        let Ok((api, _)) = objects::api_of(&self.client(), &like).await else { return Ok(BTreeSet::new()) };
        let all = api.list(&ListParams::default()).await?;
        let theirs = all.items.iter().filter(|check| check.data["spec"]["controllerName"] != CONTROLLER);
        Ok(theirs.map(ResourceExt::name_any).collect())
    }

    fn nothing_was_taken(&self) -> anyhow::Result<()> {
        let breaches = self.breaches();
        ensure!(breaches.len() == self.harmed, "slices were taken from pods that had them: {breaches:#?}");
        Ok(())
    }

    /// Waits until no node is on its way, and the operator has nothing more to
    /// write.
    ///
    /// # Errors
    /// When time is up.
    pub async fn is_quiet(&self) -> anyhow::Result<()> {
        self.is_at_rest().await?;
        self.has_gone_quiet().await
    }

    /// Waits until no node is on its way.
    async fn is_at_rest(&self) -> anyhow::Result<()> {
        if self.operators().is_empty() {
            return Ok(());
        }
        until(self.gpu_nodes(), "no node is on its way", self.patience(), |seen| {
            let phase = |node: &api::GpuNode| {
                let rollout = node.status.as_ref().and_then(|status| status.rollout.as_ref());
                rollout.map(|rollout| rollout.phase.clone()).unwrap_or_default()
            };
            match seen.values().find(|node| !AT_REST.contains(&phase(node).as_str())) {
                None => Ok(()),
                Some(node) => Err(format!("{} is {}", node.name_any(), phase(node))),
            }
        })
        .await
    }

    /// Waits until the operator has had nothing to write for a while: what it
    /// knows is what there is.
    async fn has_gone_quiet(&self) -> anyhow::Result<()> {
        if !self.is_audited() || self.operators().is_empty() {
            return Ok(());
        }
        let audit = self.audit()?;
        let mut seen = (usize::MAX, 0);
        wait::asking("the operator has nothing more to write", PATIENCE, async || {
            let written = audit.writes()?.len();
            seen = if written == seen.0 { (written, seen.1 + 1) } else { (written, 0) };
            Ok(if seen.1 >= QUIET { Ok(()) } else { Err(format!("it wrote {written} times")) })
        })
        .await
    }

    /// A new operator, which remembers nothing, looks at everything once more
    /// and writes nothing: what it wrote while it came up is the lease.
    async fn plans_again_in_vain(&mut self) -> anyhow::Result<()> {
        if !self.is_audited() || self.operators().is_empty() {
            return Ok(());
        }
        self.stop_operators().await?;
        let audit = self.audit_from_now()?;
        self.operator_again().await?;
        let operator = self.operators().last().context("it was started")?;
        operator.has_run_rounds(1).await?;
        let mut writes = audit.writes()?;
        // What was told is told again under the same name, and refused as known.
        writes.retain(|write| write.object_ref.resource != "events" || write.response_status.code != 409);
        if !writes.is_empty() {
            let writes: Vec<_> = writes.iter().map(ToString::to_string).collect();
            bail!("a new operator looked at what is there, and wrote:\n{}", writes.join("\n"));
        }
        Ok(())
    }

    async fn nobody_is_cordoned_in_silence(&self) -> anyhow::Result<()> {
        let nodes = self.nodes().list(&ListParams::default()).await?;
        let ours = nodes.iter().filter(|node| is_of_a_scenario(node));
        for node in ours {
            let name = self.given_name(&node.name_any());
            if self.cordoned.contains(&name) {
                continue;
            }
            ensure!(!is_cordoned(node), "{name} stays cordoned");
            let paused = paused_by_us(node);
            ensure!(paused.is_empty(), "{name} stays without operands that we paused: {paused:?}");
        }
        Ok(())
    }

    fn nothing_was_refused(&self) -> anyhow::Result<()> {
        if !self.is_audited() {
            return Ok(());
        }
        let refused: Vec<_> = self.audit()?.refused()?.iter().map(ToString::to_string).collect();
        ensure!(refused.is_empty(), "the operator asked for what it has no right to: {refused:#?}");
        Ok(())
    }
}
