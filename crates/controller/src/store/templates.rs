//! What workbenches and workloads are made from, each part of it kept once.

use api::foreign::{StringMap, TemplateSpec};
use k8s_openapi::api::core::v1::PodSpec;

use super::pool::Pool;

/// Every shape of a template and every set of amounts that some object has.
#[derive(Debug, Default)]
pub(super) struct Templates {
    shapes: Pool<PodSpec>,
    amounts: Pool<StringMap>,
}

impl Templates {
    /// Puts what others have in the place of what is equal to it.
    pub(super) fn share(&mut self, template: &mut TemplateSpec) {
        self.shapes.share(template.shared());
        for amounts in template.shared_amounts() {
            self.amounts.share(amounts);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn what_templates_have_in_common_is_one_value_and_what_each_asks_for_is_its_own() {
        let mut all = Templates::default();
        let mut template = |memory: &str| {
            let slice = json!({"limits": {"memory": memory, "nvidia.com/mig-1g.10gb": "1"}});
            let proxy = json!({"requests": {"cpu": "100m"}});
            let mut template: TemplateSpec = serde_json::from_value(json!({"containers": [
                {"name": memory, "resources": slice}, {"name": "proxy", "resources": proxy}]}))
            .expect("the spec of a pod");
            all.share(&mut template);
            let shape = Arc::clone(template.shared().inner());
            let amounts = template.shared_amounts().map(|amounts| Arc::clone(amounts.inner()));
            (shape, amounts.collect::<Vec<_>>())
        };
        let (shape, amounts) = template("8Gi");
        let (same_shape, same_amounts) = template("8Gi");
        let (shape_of_other, other_amounts) = template("9Gi");
        assert!(Arc::ptr_eq(&shape, &same_shape) && Arc::ptr_eq(&shape, &shape_of_other));
        let are_one = |others: &[Arc<StringMap>]| {
            amounts.iter().zip(others).map(|(one, other)| Arc::ptr_eq(one, other)).collect::<Vec<_>>()
        };
        assert_eq!((are_one(&same_amounts), are_one(&other_amounts)), (vec![true, true], vec![false, true]));
    }
}
