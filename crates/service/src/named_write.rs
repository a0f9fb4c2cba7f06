//! Writes without an action whose caller gave the request an id: a repeated request gets the result of the first.

use muster_engine::Caller;
use muster_store::commands::{NamedWrite, RequestKey};

use crate::error::{ErrorKind, ServiceError};
use crate::service::Service;
use crate::write_event::Writer;

impl Writer {
    fn request_key(&self) -> Option<RequestKey> {
        let Self { principal, door, named, .. } = self.clone();
        Caller { principal, door, reason: String::new(), request: named }.request_key()
    }
}

impl Service {
    /// Executes a write unless the same request was executed before; then `replay` gets the id of the object that the
    /// first request wrote.
    pub(crate) async fn write_once<T, F>(
        &self,
        writer: &Writer,
        write: impl Future<Output = Result<T, ServiceError>>,
        replay: impl FnOnce(String) -> F,
    ) -> Result<T, ServiceError>
    where
        F: Future<Output = Result<T, ServiceError>>,
    {
        let first = match self.first_write(writer).await? {
            Some(first) => first,
            None => match write.await {
                // The same request may have been executed meanwhile.
                Err(error) if matches!(error.kind, ErrorKind::Exists | ErrorKind::NotFound) => {
                    self.first_write(writer).await?.ok_or(error)?
                }
                done => return done,
            },
        };
        replay(first).await
    }

    async fn first_write(&self, writer: &Writer) -> Result<Option<String>, ServiceError> {
        match writer.request_key() {
            Some(key) => Ok(self.store().named_write(&key).await?),
            None => Ok(None),
        }
    }

    /// The request of a write, as it is stored with the written object.
    pub(crate) fn named_write(&self, writer: &Writer, object: String) -> Option<NamedWrite> {
        writer.request_key().map(|key| NamedWrite { key, object, at: self.now() })
    }
}
