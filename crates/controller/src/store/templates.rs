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
