//! Another client overwrites what only the operator may write, each time that the operator writes it.

use e2e::{a100, mig, pod, scenario, wait};
use kube::api::{Patch, PatchParams};
use serde_json::json;

/// How often somebody else writes, twenty times a second.
const REWRITES: usize = 150;

#[test]
fn somebody_who_rewrites_what_is_remembered_is_answered_ever_more_slowly_and_people_are_told() {
    scenario(async |scene| {
        scene.research_has([a100("n1", "all-1g.10gb"), a100("n2", "all-1g.10gb")]).await?;
        scene.converged("research").await?;
        let audit = scene.audit_from_now()?;
        let theirs = json!({"status": {"slices": "mine"}});
        let mut rewrites = 0;
        wait::asking("somebody has written often enough", wait::PATIENCE, async || {
            let params = PatchParams { field_manager: Some("a-script".to_owned()), ..PatchParams::default() };
            scene.gpu_nodes().patch_status("n1", &params, &Patch::Merge(&theirs)).await?;
            rewrites += 1;
            Ok(if rewrites >= REWRITES { Ok(()) } else { Err(format!("{rewrites} times")) })
        })
        .await?;
        let said = scene.says("research", "Stalled", "True", "WriteUndone").await?;
        assert!(said.contains("n1: another client has overwritten the status of GpuNode n1"), "{said}");
        let of_node = |name: &str| {
            let writes = audit.writes()?;
            let of_it = writes
                .iter()
                .filter(|write| write.object_ref.resource == "gpunodes" && write.object_ref.name == name);
            anyhow::Ok(of_it.map(ToString::to_string).collect::<Vec<_>>())
        };
        let answers = of_node("n1")?.len();
        assert!((9..30).contains(&answers), "{answers} answers to {REWRITES} writes");
        assert_eq!(of_node("n2")?, Vec::<String>::new(), "nobody wrote there");
        // Who stops is forgotten, and the node does its work again.
        scene.converged("research").await?;
        for name in ["first", "second"] {
            scene.apply(pod(name, &mig("3g.40gb"), 2)).await?;
        }
        scene.runs("first").await?;
        scene.runs("second").await?;
        scene.converged("research").await
    });
}
