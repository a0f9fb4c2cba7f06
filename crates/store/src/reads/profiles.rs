//! Profiles.

use muster_core::ids::ProfileId;
use muster_core::profile::Profile;

use crate::error::StoreError;
use crate::rows::profiles;
use crate::store::Store;

impl Store {
    /// The profile of this id.
    pub async fn profile(&self, id: ProfileId) -> Result<Option<Profile>, StoreError> {
        Ok(self.read(async |tx| profiles::fetch(tx, &[id]).await).await?.into_iter().next())
    }

    /// The profiles of these ids, those that are there.
    pub async fn profiles_of(&self, ids: &[ProfileId]) -> Result<Vec<Profile>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        self.read(async |tx| profiles::fetch(tx, ids).await).await
    }
}
