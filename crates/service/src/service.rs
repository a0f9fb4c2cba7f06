//! The handle by which APIs reach the engine and the store.

use std::sync::Arc;

use muster_core::shape::NamedShape;
use muster_engine::Engine;
use muster_engine::ports::machines::MachineProvider;
use muster_store::Store;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::error::ServiceError;
use crate::token_signer::TokenSigner;

/// The use cases over an engine. It is cheap to clone.
#[derive(Clone)]
pub struct Service {
    pub(crate) engine: Engine,
    /// Cancelled when the server stops, so that waiting requests are answered at once.
    closing: CancellationToken,
    signer: Arc<OnceCell<TokenSigner>>,
    /// The shapes that requests can name.
    pub(crate) shapes: Arc<[NamedShape]>,
    /// The port to machines, if they are enabled.
    pub(crate) machines: Option<Arc<dyn MachineProvider>>,
}

impl Service {
    /// Creates the use cases over an engine, without shapes and without machines.
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            closing: CancellationToken::new(),
            signer: Arc::default(),
            shapes: Arc::default(),
            machines: None,
        }
    }

    /// Sets the shapes that requests can name.
    #[must_use]
    pub fn with_shapes(self, shapes: Vec<NamedShape>) -> Self {
        Self { shapes: shapes.into(), ..self }
    }

    /// Sets the port to machines, if they are enabled.
    #[must_use]
    pub fn with_machines(self, machines: Option<Arc<dyn MachineProvider>>) -> Self {
        Self { machines, ..self }
    }

    /// The engine that the use cases call.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The store of the engine.
    pub(crate) fn store(&self) -> &Store {
        self.engine.store()
    }

    /// The signer of tokens that clients return. Its key is read from the database once.
    pub(crate) async fn signer(&self) -> Result<&TokenSigner, ServiceError> {
        let read = async || Ok(TokenSigner::new(&self.store().token_key().await?));
        self.signer.get_or_try_init(read).await
    }

    /// The token that is cancelled when the server stops.
    pub const fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Ends every wait when the server stops. The actions continue.
    pub fn close(&self) {
        self.closing.cancel();
    }

    /// The largest number of nodes that a cluster may have.
    pub fn max_nodes(&self) -> u32 {
        self.engine.config().max_nodes_per_cluster
    }
}
