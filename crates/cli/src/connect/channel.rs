//! Opens a connection and verifies that a Muster server answers.

use std::time::Duration;

use muster_proto::v1alpha2::admin_service_client::AdminServiceClient;
use muster_proto::v1alpha2::{InfoRequest, InfoResponse};
use tokio::time::timeout;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};

use crate::failure::{Exit, Failure, connection_lost, error_code};

/// Time limit to connect, and to answer the first call.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// Interval and time-out of HTTP/2 pings: a command may wait for hours on an idle connection.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// A connection to a server that answers.
#[derive(Debug)]
pub(super) struct ServerConnection {
    pub(super) channel: Channel,
    pub(super) credentials: Credentials,
    /// The server's description of itself; `None` if the server rejected the credentials of the command.
    pub(super) info: Option<InfoResponse>,
}

/// Adds the token to every call.
#[derive(Debug, Clone)]
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

impl Credentials {
    fn new(token: Option<&str>) -> Result<Self, Failure> {
        let header = token.map(|token| format!("Bearer {token}").parse()).transpose();
        let header = header.map_err(|_| {
            Failure::new(Exit::Usage, "the token has characters that are not allowed in an HTTP header")
        })?;
        Ok(Self { header })
    }
}

/// Connects and asks the server for its description.
pub(super) async fn open(address: &str, token: Option<&str>) -> Result<ServerConnection, Failure> {
    let credentials = Credentials::new(token)?;
    let channel = endpoint(address)?.connect().await.map_err(|error| {
        Failure::new(Exit::Failed, format!("no server answers at {address}: {}", causes(&error)))
            .hint("start one with `muster serve`, or name another with --server")
    })?;
    let mut admin = AdminServiceClient::with_interceptor(channel.clone(), credentials.clone());
    let info = match timeout(HANDSHAKE_LIMIT, admin.info(InfoRequest {})).await {
        Ok(Ok(info)) => Some(info.into_inner()),
        // This is a Muster server that rejects the credentials: the next call reports that better.
        Ok(Err(status)) if error_code(&status).is_some() => None,
        Ok(Err(status)) if connection_lost(&status) => {
            return Err(not_muster(address, &format!("it does not speak gRPC ({})", status.message())));
        }
        Ok(Err(status)) => return Err(not_muster(address, status.message())),
        Err(_) => {
            return Err(not_muster(address, &format!("no answer within {} s", HANDSHAKE_LIMIT.as_secs())));
        }
    };
    Ok(ServerConnection { channel, credentials, info })
}

fn not_muster(address: &str, why: &str) -> Failure {
    Failure::new(Exit::Failed, format!("the program at {address} is not a Muster server: {why}"))
        .hint("--server takes the address of a Muster server, such as http://127.0.0.1:8888")
}

fn endpoint(address: &str) -> Result<Endpoint, Failure> {
    let unusable =
        |why: String| Failure::new(Exit::Usage, format!("'{address}' is not a server address: {why}"));
    if !address.starts_with("http://") && !address.starts_with("https://") {
        return Err(unusable("write it as http://127.0.0.1:8888 or https://…".to_owned()));
    }
    let endpoint = Endpoint::from_shared(address.to_owned()).map_err(|error| unusable(error.to_string()))?;
    let endpoint = if address.starts_with("https://") {
        let tls = ClientTlsConfig::new().with_native_roots();
        endpoint.tls_config(tls).map_err(|error| unusable(causes(&error)))?
    } else {
        endpoint
    };
    Ok(endpoint
        .connect_timeout(HANDSHAKE_LIMIT)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .tcp_nodelay(true))
}

/// Returns the innermost cause: the transport's own message says little.
fn causes(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message = error.to_string();
        cause = error.source();
    }
    message
}
