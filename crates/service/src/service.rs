//! The handle of APIs: the engine, and the settings that decide what callers may do.

use std::sync::Arc;

use muster_engine::Engine;
use muster_store::Store;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::error::ServiceError;
use crate::token_signer::TokenSigner;

/// The part of the server's configuration that decides what callers may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// The server runs with `--dev`.
    pub dev: bool,
    /// Only the operating system's user that runs the server can authenticate.
    pub own_user_only: bool,
}

/// The use cases over an engine. Handles are cheap to clone.
#[derive(Clone)]
pub struct Service {
    pub(crate) engine: Engine,
    pub(crate) settings: Arc<Settings>,
    /// Cancelled when the server stops: waiting requests are answered at once.
    closing: CancellationToken,
    signer: Arc<OnceCell<TokenSigner>>,
}

impl Service {
    /// The use cases of an engine.
    pub fn new(engine: Engine, settings: Settings) -> Self {
        Self {
            engine,
            settings: Arc::new(settings),
            closing: CancellationToken::new(),
            signer: Arc::default(),
        }
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
