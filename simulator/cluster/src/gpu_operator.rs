//! The GPU Operator itself, apart from its operands: its ClusterPolicy, the effect of its changes on all
//! nodes, and its state; and the map of layouts that it names.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use api::foreign::ClusterPolicy;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use operands::{Flavour, Operand, Stack, Strategy};
use serde_json::json;

use crate::error::Error;
use crate::fleet::Fleet;
use crate::policy::Policy;
use crate::shared::Shared;
use crate::watch::{Seen, follow};

/// The key of the map that MIG manager reads.
const KEY: &str = "config.yaml";

fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("nvidia.com", "v1", "ClusterPolicy");
    ApiResource::from_gvk_with_plural(&kind, "clusterpolicies")
}

fn policies(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource())
}

fn read(object: &DynamicObject) -> Option<ClusterPolicy> {
    serde_json::from_value(serde_json::to_value(object).ok()?).ok()
}

/// Makes the `GPUCluster` when there is none.
async fn ensure_gpu_cluster(client: &Client) -> Result<(), Error> {
    let kind = GroupVersionKind::gvk("nvidia.com", "v1alpha1", "GPUCluster");
    let resource = ApiResource::from_gvk_with_plural(&kind, "gpuclusters");
    let mut object = DynamicObject::new("gpu-cluster", &resource);
    object.data = json!({"spec": {}});
    let made = crate::setup::create(&Api::all_with(client.clone(), &resource), &object).await;
    made.map(drop).map_err(|source| Error::call("make the GPUCluster", source))
}

/// Makes the ClusterPolicy when there is none, and reads what there is. Under
/// DRA there is a `GPUCluster` instead.
pub(crate) async fn ensure(shared: &Shared) -> Result<(), Error> {
    if shared.fleet.stack == Stack::Dra {
        return ensure_gpu_cluster(&shared.client).await;
    }
    let api = policies(&shared.client);
    let failed = |source| Error::call("read the ClusterPolicy", source);
    let there = api.list(&ListParams::default()).await.map_err(failed)?.items;
    let object = match there.into_iter().next() {
        Some(object) => object,
        None => {
            let made = first(&shared.fleet);
            let failed = |source| Error::call("make the ClusterPolicy", source);
            api.create(&PostParams::default(), &made).await.map_err(failed)?
        }
    };
    let maps: Api<ConfigMap> = Api::namespaced(shared.client.clone(), &shared.fleet.namespace);
    if !shared.generates() {
        let made = crate::setup::create(&maps, &shipped(&shared.fleet)?).await;
        made.map_err(|source| Error::call("make the map that the Operator ships", source))?;
    }
    let failed = |source| Error::call("read the maps of layouts", source);
    let maps = maps.list(&ListParams::default()).await.map_err(failed)?;
    let mut policy = shared.policy.lock().unwrap_or_else(PoisonError::into_inner);
    policy.name = object.name_any();
    if let Some(read) = read(&object) {
        policy.take(&read, &object);
    }
    policy.maps = maps.iter().filter_map(|map| Some((map.name_any(), content(map)?))).collect();
    policy.files = maps.iter().map(|map| (map.name_any(), files(map))).collect();
    Ok(())
}

fn content(map: &ConfigMap) -> Option<String> {
    map.data.as_ref()?.get(KEY).cloned()
}

fn files(map: &ConfigMap) -> BTreeMap<String, String> {
    map.data.clone().unwrap_or_default()
}

/// The map that the Operator ships, which counts where MIG manager generates
/// none: the names of every model of the fleet. (The real one has all models.)
fn shipped(fleet: &Fleet) -> Result<ConfigMap, Error> {
    let mut models = Vec::new();
    for spec in fleet.each_node() {
        let node = fleet.node(&spec, None, jiff::Timestamp::UNIX_EPOCH)?;
        models.extend(node.machine().gpus().iter().map(|gpu| Arc::clone(&gpu.model)));
    }
    let text = operands::MigConfigs::generated(models.iter().map(|model| &**model)).to_yaml();
    let mut map = ConfigMap::default();
    map.metadata.name = Some("default-mig-parted-config".to_owned());
    map.data = Some(BTreeMap::from([(KEY.to_owned(), text)]));
    Ok(map)
}

/// The ClusterPolicy as the installation of this flavour makes it.
fn first(fleet: &Fleet) -> DynamicObject {
    let Policy { name, .. } = Policy::for_fleet(fleet);
    let strategy = match fleet.strategy {
        Strategy::Mixed => "mixed",
        Strategy::Single => "single",
        Strategy::None => "none",
        Strategy::Configured => "",
    };
    let mut manager = json!({"enabled": true});
    if fleet.flavour == Flavour::Helm {
        manager["config"] = json!({"default": "all-disabled", "name": ""});
    }
    if fleet.with_reboot {
        manager["env"] = json!([{"name": "WITH_REBOOT", "value": "true"}]);
    }
    let mut object = DynamicObject::new(&name, &resource());
    object.data = json!({"spec": {
        "daemonsets": {}, "dcgm": {}, "dcgmExporter": {}, "devicePlugin": {}, "driver": {}, "gfd": {},
        "nodeStatusExporter": {}, "operator": {}, "toolkit": {},
        "mig": {"strategy": strategy}, "migManager": manager,
    }});
    object
}

/// Watches the ClusterPolicy and the maps, and keeps its state.
pub(crate) async fn watch(shared: Arc<Shared>) {
    let maps: Api<ConfigMap> = Api::namespaced(shared.client.clone(), &shared.fleet.namespace);
    let brief = |map: &ConfigMap| map.name_any();
    let on_map = |seen: Seen<ConfigMap, String>| {
        let mut policy = shared.policy.lock().unwrap_or_else(PoisonError::into_inner);
        let name = match seen {
            Seen::There(map) => {
                let name = map.name_any();
                policy.files.insert(name.clone(), files(&map));
                match content(&map) {
                    Some(content) => policy.maps.insert(name.clone(), content),
                    None => policy.maps.remove(&name),
                };
                name
            }
            Seen::Gone(name) => {
                policy.maps.remove(&name);
                policy.files.remove(&name);
                name
            }
        };
        let content = (name == policy.config).then(|| policy.map());
        let plugin = (name == policy.plugin_config).then(|| policy.plugin_files()).flatten();
        drop(policy);
        if let Some(files) = plugin {
            for kept in shared.hosts() {
                shared.with(&kept, |host| host.node.update_plugin_config(files.clone()));
            }
        }
        if let Some(content) = content {
            for kept in shared.hosts() {
                shared.with(&kept, |host| host.set_map(content.clone()));
            }
        }
    };
    let on_policy = |seen: Seen<DynamicObject, ()>| {
        if let Seen::There(object) = seen
            && let Some(read) = read(&object)
        {
            take_in(&shared, &object, &read);
        }
    };
    if shared.fleet.stack == Stack::Dra {
        return;
    }
    let any = watcher::Config::default;
    futures::join!(
        follow(maps, any(), shared.stop.clone(), shared.anew(), brief, on_map),
        follow(policies(&shared.client), any(), shared.stop.clone(), shared.anew(), |_| (), on_policy),
        keep_state(&shared),
    );
}

/// The ClusterPolicy was seen: what changed in it goes to all nodes.
fn take_in(shared: &Shared, object: &DynamicObject, read: &ClusterPolicy) {
    let mut policy = shared.policy.lock().unwrap_or_else(PoisonError::into_inner);
    if policy.name != object.name_any() {
        // A second one is ignored by the Operator.
        return;
    }
    let before = policy.clone();
    policy.take(read, object);
    let (strategy, map) = (policy.strategy, policy.map());
    let (new_strategy, new_map) = (strategy != before.strategy, policy.config != before.config);
    let generated = policy.config.is_empty();
    let manager = policy.manager;
    let new_plugin =
        (&policy.plugin_config, &policy.plugin_default) != (&before.plugin_config, &before.plugin_default);
    let (files, default) = (policy.plugin_files(), policy.plugin_default.clone());
    let plugin_map = policy.plugin_config.clone();
    let new_manager = manager != before.manager;
    drop(policy);
    let any = new_strategy || new_map || new_plugin || new_manager;
    for kept in shared.hosts().iter().filter(|_| any) {
        shared.with(kept, |host| {
            if new_strategy {
                host.node.set_strategy(strategy);
            }
            if new_plugin {
                host.plugin_map.clone_from(&plugin_map);
                host.node.set_plugin_config(files.clone(), &default);
            }
            if new_manager {
                host.node.set_manager_enabled(manager);
            }
            if new_map {
                // The DaemonSet's template changed: its pods are made anew.
                let content = if generated { Some(host.generated_map()) } else { map.clone() };
                host.generates = generated && shared.generates();
                host.set_map(content);
                host.node.delete_operand(Operand::MigManager);
            }
        });
    }
}

/// Writes `ready` while the validator is ready everywhere, else `notReady`.
async fn keep_state(shared: &Shared) {
    let api = policies(&shared.client);
    loop {
        let ready = shared.hosts().iter().all(|kept| {
            kept.with(|host| {
                let validator = host.node.operand_pod(Operand::OperatorValidator);
                !host.node.ready() || validator.is_none_or(operands::OperandPod::is_ready)
            })
        });
        let (name, said) = {
            let policy = shared.policy.lock().unwrap_or_else(PoisonError::into_inner);
            (policy.name.clone(), policy.state)
        };
        let mut retry = None;
        if said != Some(ready) {
            let state = if ready { "ready" } else { "notReady" };
            let patch = json!({"status": {"state": state, "namespace": shared.fleet.namespace}});
            let patched = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
            match patched {
                Ok(_) => {
                    shared.policy.lock().unwrap_or_else(PoisonError::into_inner).state = Some(ready);
                }
                Err(error) => {
                    tracing::debug!(error = &error as &dyn std::error::Error, "the state was not written");
                    retry = Some(Duration::from_secs(1));
                }
            }
        }
        tokio::select! {
            () = shared.stop.cancelled() => return,
            () = shared.policy_wake.notified() => {}
            () = tokio::time::sleep(retry.unwrap_or(Duration::from_secs(60))) => {}
        }
    }
}
