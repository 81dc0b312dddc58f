//! Decides who may read the metrics if they are served over TLS: clients with a token that the API server
//! accepts, whose owner may `get` the path `/metrics`. Answers are cached for a minute, as is usual for
//! such checks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Api;
use tokio::sync::Semaphore;

use crate::calls::{CallError, Calls};
use crate::clock;

/// How long an answer holds.
const HOLDS: Duration = Duration::from_secs(60);
/// How many answers are remembered; few read metrics.
const MOST: usize = 64;
/// How many tokens are asked about at once: strangers do not use up the API server.
const AT_ONCE: usize = 4;
/// How we are known as a writer.
const MANAGER: &str = "slicewright-operator";

/// What came of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its owner may read.
    Allowed,
    /// There is none, or nobody knows it.
    Unknown,
    /// Its owner may not read.
    Forbidden,
}

/// Asks the API server about tokens.
pub struct Guard {
    calls: Arc<Calls>,
    path: &'static str,
    known: Mutex<BTreeMap<String, (Instant, Verdict)>>,
    turns: Semaphore,
}

impl Guard {
    /// Guards this path.
    #[must_use]
    pub fn new(calls: Arc<Calls>, path: &'static str) -> Self {
        Self { calls, path, known: Mutex::default(), turns: Semaphore::new(AT_ONCE) }
    }

    /// Whether who sent these headers may read.
    ///
    /// # Errors
    /// When the API server does not say.
    pub async fn judge(&self, headers: &HeaderMap) -> Result<Verdict, CallError> {
        let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some(token) = shown.and_then(|value| value.strip_prefix("Bearer ")).map(str::trim) else {
            return Ok(Verdict::Unknown);
        };
        if let Some(verdict) = self.remembered(token) {
            return Ok(verdict);
        }
        // Closed never: it is ours.
        let _turn = self.turns.acquire().await;
        let verdict = self.ask(token).await?;
        // What nobody knows is not worth remembering: it may be known in a moment.
        if verdict != Verdict::Unknown {
            self.remember(token, verdict);
        }
        Ok(verdict)
    }

    fn remembered(&self, token: &str) -> Option<Verdict> {
        let now = clock::instant();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (at, _)| now.saturating_duration_since(*at) < HOLDS);
        known.get(token).map(|(_, verdict)| *verdict)
    }

    fn remember(&self, token: &str, verdict: Verdict) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MOST {
            known.insert(token.to_owned(), (clock::instant(), verdict));
        }
    }

    async fn ask(&self, token: &str) -> Result<Verdict, CallError> {
        let tokens: Api<TokenReview> = Api::all(self.calls.client());
        let review = TokenReview {
            spec: TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() },
            ..TokenReview::default()
        };
        let review = self.calls.create(&tokens, "TokenReview", MANAGER, &review).await?;
        let status = review.status.unwrap_or_default();
        let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else {
            return Ok(Verdict::Unknown);
        };
        let rights: Api<SubjectAccessReview> = Api::all(self.calls.client());
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username,
                uid: user.uid,
                groups: user.groups,
                extra: user.extra,
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some(self.path.to_owned()),
                    verb: Some("get".to_owned()),
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let review = self.calls.create(&rights, "SubjectAccessReview", MANAGER, &review).await?;
        let allowed = review.status.is_some_and(|status| status.allowed);
        Ok(if allowed { Verdict::Allowed } else { Verdict::Forbidden })
    }
}
