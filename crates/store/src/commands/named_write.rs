//! The request ids of writes without an action.

use muster_core::time::Timestamp;

use super::accept::RequestKey;
use crate::error::StoreError;
use crate::transaction::Transaction;

/// The request of a write without an action, whose caller gave it an id.
#[derive(Debug, Clone)]
pub struct NamedWrite {
    /// The request id.
    pub key: RequestKey,
    /// The id of the written object.
    pub object: String,
    /// The time of the write.
    pub at: Timestamp,
}

impl NamedWrite {
    /// Returns true if the same request was executed before: the write must not be repeated.
    pub(super) async fn was_executed(
        named: Option<&Self>,
        tx: &mut Transaction<'_>,
    ) -> Result<bool, StoreError> {
        let Some(Self { key, .. }) = named else { return Ok(false) };
        Ok(key.find_answer(tx).await?.is_some())
    }

    /// Records the request, with the write that answers it.
    pub(super) async fn remember(named: Option<&Self>, tx: &mut Transaction<'_>) -> Result<(), StoreError> {
        let Some(Self { key, object, at }) = named else { return Ok(()) };
        key.remember(tx, object, *at).await
    }
}
