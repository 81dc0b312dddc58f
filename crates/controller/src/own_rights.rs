//! Which rights we have, as the API server says it. Asking writes nothing.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::Api;

use crate::calls::Calls;

/// Whether we may do this; `None` where the API server does not say.
pub(crate) async fn is_allowed(calls: &Calls, asker: &str, attributes: ResourceAttributes) -> Option<bool> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(calls.client());
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let answer = calls.create(&reviews, "SelfSubjectAccessReview", asker, &review).await.ok()?;
    Some(answer.status?.allowed)
}
