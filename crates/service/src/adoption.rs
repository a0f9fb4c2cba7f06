//! Adoption of nodes that were created outside Muster.

use muster_core::profile::Profile;
use muster_engine::Caller;

pub use muster_engine::admission::adopt::{Adopted, Adoptee, NewName};

use crate::error::ServiceError;
use crate::service::Service;

impl Service {
    /// The profile that an adopted node would get. Nothing is stored.
    pub async fn adopt_preview(&self, caller: &Caller, adoptee: &Adoptee) -> Result<Profile, ServiceError> {
        Ok(self.engine.adopt_preview(adoptee, caller).await?)
    }

    /// Adopts a node.
    pub async fn adopt(
        &self,
        caller: &Caller,
        adoptee: &Adoptee,
        named: NewName,
    ) -> Result<Adopted, ServiceError> {
        Ok(self.engine.adopt(adoptee, named, caller.clone()).await?)
    }
}
