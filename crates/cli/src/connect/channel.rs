//! The way to a server: a connection, a token, and a first question that shows who answers.

use std::time::Duration;

use muster_proto::v1alpha2::admin_service_client::AdminServiceClient;
use muster_proto::v1alpha2::{InfoRequest, InfoResponse};
use tokio::time::timeout;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};

use crate::failure::{Exit, Failure, connection_lost, word};

/// How long a server may take to take a call, and to say who it is.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// How often a quiet connection is asked whether it still is one: a wait may take hours.
const STILL_THERE: Duration = Duration::from_secs(20);

/// A connection to a server that answers.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) channel: Channel,
    pub(super) credentials: Credentials,
    /// What it says of itself; nothing if it does not know us.
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
        let header =
            header.map_err(|_| Failure::new(Exit::Usage, "the token has characters that no token has"))?;
        Ok(Self { header })
    }
}

/// Connects, and asks who answers.
pub(super) async fn reach(address: &str, token: Option<&str>) -> Result<Way, Failure> {
    let credentials = Credentials::new(token)?;
    let channel = endpoint(address)?.connect().await.map_err(|error| {
        Failure::new(Exit::Failed, format!("no server answers at {address}: {}", causes(&error)))
            .hint("start one with `muster serve`, or name another with --server")
    })?;
    let mut admin = AdminServiceClient::with_interceptor(channel.clone(), credentials.clone());
    let info = match timeout(FIRST_ANSWER, admin.info(InfoRequest {})).await {
        Ok(Ok(info)) => Some(info.into_inner()),
        // It is Muster, and does not know us: the call that follows says so better.
        Ok(Err(status)) if word(&status).is_some() => None,
        Ok(Err(status)) if connection_lost(&status) => {
            return Err(stranger(address, &format!("it does not speak gRPC ({})", status.message())));
        }
        Ok(Err(status)) => return Err(stranger(address, status.message())),
        Err(_) => return Err(stranger(address, &format!("no answer within {} s", FIRST_ANSWER.as_secs()))),
    };
    Ok(Way { channel, credentials, info })
}

fn stranger(address: &str, why: &str) -> Failure {
    Failure::new(Exit::Failed, format!("what listens at {address} is no Muster server: {why}"))
        .hint("--server takes the address of a Muster server, such as http://127.0.0.1:8888")
}

fn endpoint(address: &str) -> Result<Endpoint, Failure> {
    let unusable =
        |why: String| Failure::new(Exit::Usage, format!("'{address}' is no address of a server: {why}"));
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
        .connect_timeout(FIRST_ANSWER)
        .http2_keep_alive_interval(STILL_THERE)
        .keep_alive_timeout(STILL_THERE)
        .tcp_nodelay(true))
}

/// An error with what is behind it: the transport's own words say little.
fn causes(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words = error.to_string();
        cause = error.source();
    }
    words
}
