//! Whose a token is, by `TokenReview`.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use muster_engine::ports::identity::{Identity, IdentityError, TokenIdentity};
use muster_engine::ports::provider::ProviderError;

use crate::connect::{self, CannotConnect, Options};
use crate::refusal;

/// How long an answer may take: somebody waits for it.
const AT_MOST: Duration = Duration::from_secs(5);

/// Asks the API server whose a token is.
pub struct TokenReviews {
    client: Client,
}

impl TokenReviews {
    /// Finds the API server; it is not asked anything yet.
    pub async fn new(options: &Options) -> Result<Self, CannotConnect> {
        Ok(Self { client: connect::client(options).await? })
    }
}

fn cannot_tell(refused: ProviderError) -> IdentityError {
    if refused.transient {
        IdentityError::Unavailable(refused.message)
    } else {
        IdentityError::NotAllowed(refused.message)
    }
}

#[async_trait]
impl Identity for TokenReviews {
    async fn identify_token(&self, token: &str) -> Result<Option<TokenIdentity>, IdentityError> {
        const DOING: &str = "have a token looked at";
        let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let parameters = PostParams::default();
        let answer = tokio::time::timeout(AT_MOST, reviews.create(&parameters, &review)).await;
        let answer = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(cannot_tell(refusal::of(DOING, error))),
            Err(_) => return Err(cannot_tell(refusal::late(DOING))),
        };
        let status = answer.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true)).unwrap_or_default();
        let groups = user.groups.unwrap_or_default();
        Ok(user.username.filter(|name| !name.is_empty()).map(|user| TokenIdentity { user, groups }))
    }
}
