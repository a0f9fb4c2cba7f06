//! Reviews of Kubernetes tokens: the user of a token (`TokenReview`), and the user's rights (`SubjectAccessReview`).

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use muster_engine::ports::identity::{Identity, IdentityError, TokenIdentity};
use muster_engine::ports::provider::ProviderError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connect::{self, CannotConnect, KubernetesOptions};
use crate::errors;

/// The time-out of a review: a request waits for the answer.
const REVIEW_DEADLINE: Duration = Duration::from_secs(5);

/// Identifies the users of Kubernetes tokens.
pub struct TokenReviews {
    client: Client,
}

impl TokenReviews {
    /// Creates the client; no request is sent yet.
    pub async fn new(options: &KubernetesOptions) -> Result<Self, CannotConnect> {
        Ok(Self { client: connect::client(options).await? })
    }

    /// Creates a review, which the API server answers without storing it.
    async fn review<K>(&self, doing: &str, review: &K) -> Result<K, IdentityError>
    where
        K: kube::Resource<DynamicType = (), Scope = ClusterResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned
            + Sync,
    {
        let reviews: Api<K> = Api::all(self.client.clone());
        let parameters = PostParams::default();
        match tokio::time::timeout(REVIEW_DEADLINE, reviews.create(&parameters, review)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(identity_error(errors::request_error(doing, error))),
            Err(_) => Err(identity_error(errors::timeout_error(doing))),
        }
    }
}

fn identity_error(refused: ProviderError) -> IdentityError {
    if refused.transient {
        IdentityError::Unavailable(refused.message)
    } else {
        IdentityError::NotAllowed(refused.message)
    }
}

#[async_trait]
impl Identity for TokenReviews {
    async fn identify_token(&self, token: &str) -> Result<Option<TokenIdentity>, IdentityError> {
        let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let answer = self.review("review the token", &review).await?;
        let status = answer.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true)).unwrap_or_default();
        let groups = user.groups.unwrap_or_default();
        Ok(user.username.filter(|name| !name.is_empty()).map(|user| TokenIdentity { user, groups }))
    }

    async fn may_create_pods(&self, user: &TokenIdentity, namespace: &str) -> Result<bool, IdentityError> {
        let pods = ResourceAttributes {
            namespace: Some(namespace.to_owned()),
            verb: Some("create".to_owned()),
            resource: Some("pods".to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: Some(user.user.clone()),
            groups: Some(user.groups.clone()),
            resource_attributes: Some(pods),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answer = self.review("review the rights of the caller", &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}
