//! Finding a server and speaking to it.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use muster_api::auth::Local;
use serde::Deserialize;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::serve::default_folder;

/// Which server, and as whom.
#[derive(Debug, Clone, Parser)]
pub(crate) struct ServerFlags {
    /// The server's gRPC address, such as `http://127.0.0.1:8887`; otherwise the one of the data folder
    #[arg(long, env = "MUSTER_SERVER", value_name = "URL")]
    server: Option<String>,
    /// The token to come in with; otherwise the one of the data folder
    #[arg(long, env = "MUSTER_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// The data folder of a server on this machine
    #[arg(long, env = "MUSTER_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// What a server says of itself in its data folder.
#[derive(Debug, Deserialize)]
struct Announcement {
    grpc: String,
    tls: bool,
}

/// A way to a server.
pub(crate) struct Connection {
    pub(crate) channel: Channel,
    pub(crate) credentials: Credentials,
}

/// Adds the token to every call.
#[derive(Clone)]
pub(crate) struct Credentials {
    header: Option<MetadataValue<Ascii>>,
}

impl Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(header) = &self.header {
            request.metadata_mut().insert("authorization", header.clone());
        }
        Ok(request)
    }
}

impl ServerFlags {
    pub(crate) async fn connect(&self) -> Result<Connection> {
        // Twice is no error: whoever was first chose ring too.
        drop(rustls::crypto::ring::default_provider().install_default());
        let folder = self.data_dir.clone().or_else(default_folder);
        let address = match &self.server {
            Some(address) => address.clone(),
            None => announced(folder.as_deref())?,
        };
        // A token of this machine is for this machine's server only.
        let local = self
            .server
            .is_none()
            .then(|| folder.and_then(|folder| Local::read_token(&folder).ok()))
            .flatten();
        let token = self.token.clone().or(local);
        let header = token.map(|token| format!("Bearer {token}").parse()).transpose();
        let header = header.context("the token has characters that no token has")?;
        let endpoint =
            Endpoint::from_shared(address.clone()).with_context(|| format!("'{address}' is no address"))?;
        let endpoint = if address.starts_with("https://") {
            endpoint.tls_config(tonic::transport::ClientTlsConfig::new().with_native_roots())?
        } else {
            endpoint
        };
        let channel = endpoint.connect().await.with_context(|| format!("no server answers at {address}"))?;
        Ok(Connection { channel, credentials: Credentials { header } })
    }
}

fn announced(folder: Option<&std::path::Path>) -> Result<String> {
    let Some(folder) = folder else { bail!("which server? set --server, or HOME") };
    let file = folder.join("server.json");
    let Ok(text) = std::fs::read(&file) else {
        bail!(
            "no server runs with the data folder {}: start one with `muster serve`, or set --server",
            folder.display()
        )
    };
    let found: Announcement =
        serde_json::from_slice(&text).with_context(|| format!("{} cannot be read", file.display()))?;
    let scheme = if found.tls { "https" } else { "http" };
    Ok(format!("{scheme}://{}", found.grpc))
}
