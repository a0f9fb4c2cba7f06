//! The handle of APIs over the engine.

use std::sync::Arc;

use muster_core::shape::NamedShape;
use muster_engine::Engine;
use muster_engine::ports::machines::MachineProvider;
use muster_store::Store;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::error::ServiceError;
use crate::token_signer::TokenSigner;

/// The use cases over an engine. Handles are cheap to clone.
#[derive(Clone)]
pub struct Service {
    pub(crate) engine: Engine,
    /// Cancelled when the server stops: waiting requests are answered at once.
    closing: CancellationToken,
    signer: Arc<OnceCell<TokenSigner>>,
    /// The shapes that requests can name.
    pub(crate) shapes: Arc<[NamedShape]>,
    /// The port to machines, if they are enabled.
    pub(crate) machines: Option<Arc<dyn MachineProvider>>,
}

impl Service {
    /// The use cases of an engine.
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            closing: CancellationToken::new(),
            signer: Arc::default(),
            shapes: Arc::default(),
            machines: None,
        }
    }

    /// Adds the shapes that requests can name.
    #[must_use]
    pub fn with_shapes(self, shapes: Vec<NamedShape>) -> Self {
        Self { shapes: shapes.into(), ..self }
    }

    /// The same, beside what serves machines.
    #[must_use]
    pub fn with_machines(self, machines: Option<Arc<dyn MachineProvider>>) -> Self {
        Self { machines, ..self }
    }

    /// The engine below the use cases.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The rows.
    pub(crate) fn store(&self) -> &Store {
        self.engine.store()
    }

    /// Signs the tokens that clients give back.
    pub(crate) async fn signer(&self) -> Result<&TokenSigner, ServiceError> {
        let read = async || Ok(TokenSigner::new(&self.store().token_key().await?));
        self.signer.get_or_try_init(read).await
    }

    /// Cancelled when the server stops.
    pub const fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Ends every wait, since the server stops. The actions continue.
    pub fn close(&self) {
        self.closing.cancel();
    }

    /// The most nodes that a cluster may have.
    pub fn max_nodes(&self) -> u32 {
        self.engine.config().max_nodes_per_cluster
    }
}
