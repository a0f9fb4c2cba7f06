//! Serves both ports until the server is stopped: one for REST, probes and gRPC, one for gRPC alone.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use axum::ServiceExt;
use axum::extract::Request;
use axum_server::Handle;
use axum_server::accept::NoDelayAcceptor;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use muster_service::Service;

use crate::access_log::Port;
use crate::auth::Authenticators;
use crate::clustering::Clustering;
use crate::connections::{self, LimitedAcceptor};
use crate::core_api::CoreApi;
use crate::guard::GuardSettings;
use crate::identity::IdentityApi;
use crate::one_port::OnePort;
use crate::probes::{self, ServerMetrics};
use crate::readiness::Readiness;
use crate::scaler::Scaler;
use crate::serve::{ProtoNumbering, grpc_router, protect};
use crate::{clustering, docs, health, identity, rest, scaler};

/// The time that requests in flight have to end when the server stops.
const GRACE: Duration = Duration::from_secs(5);

/// Bound ports, so that a port in use is reported before anything starts.
#[derive(Debug)]
pub struct Ports {
    /// The port for REST, probes and gRPC.
    pub rest: TcpListener,
    /// The port for gRPC alone, where gRPC clients expect it.
    pub grpc: TcpListener,
}

impl Ports {
    /// Binds both ports; the error names the address that is not available.
    pub fn bind(rest: SocketAddr, grpc: SocketAddr) -> io::Result<Self> {
        Ok(Self { rest: bind(rest)?, grpc: bind(grpc)? })
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let why = |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"));
    let listener = TcpListener::bind(address).map_err(why)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A certificate and its key, read and validated, so that an invalid pair is reported before anything starts.
#[derive(Debug, Clone)]
pub struct Tls(RustlsConfig);

impl Tls {
    /// Reads PEM files: the certificate with its chain, and its key. The error names the file.
    pub async fn read(certificate: &Path, key: &Path) -> io::Result<Self> {
        let read = |what: &str, path: &Path| {
            let why = |error: io::Error| format!("cannot read the {what} {}: {error}", path.display());
            std::fs::read(path).map_err(|error| io::Error::new(error.kind(), why(error)))
        };
        let pems = (read("certificate", certificate)?, read("key", key)?);
        let why = |error: io::Error| {
            let (certificate, key) = (certificate.display(), key.display());
            io::Error::new(error.kind(), format!("{certificate} and {key} do not make TLS: {error}"))
        };
        RustlsConfig::from_pem(pems.0, pems.1).await.map(Self).map_err(why)
    }
}

/// The parts of a server.
pub struct Server {
    /// The core API.
    pub api: CoreApi,
    /// The clustering API.
    pub clustering: Clustering,
    /// The scaler API.
    pub scaler: Scaler,
    /// The API where accounts log in; none without a file of accounts.
    pub identity: Option<IdentityApi>,
    /// The service layer, for the probes.
    pub service: Service,
    /// The metrics.
    pub metrics: ServerMetrics,
    /// The authentication schemes.
    pub authenticators: Authenticators,
    /// The host names that clients on other machines may use.
    pub allowed_hosts: Vec<String>,
    /// The field numbers of package `proto`.
    pub proto_numbering: ProtoNumbering,
    /// TLS on both ports.
    pub tls: Option<Tls>,
}

impl Server {
    /// Serves until `stop` ends, then lets requests in flight end.
    pub async fn run(self, ports: Ports, stop: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        let Self {
            api,
            clustering,
            scaler,
            identity,
            service,
            metrics,
            authenticators,
            allowed_hosts,
            proto_numbering,
            tls,
        } = self;
        let guard = |address: SocketAddr| GuardSettings {
            loopback: address.ip().is_loopback(),
            allowed_hosts: allowed_hosts.clone(),
        };
        let requests = metrics.requests.clone();
        let readiness = Readiness::of(service.clone());
        let routes = rest::routes(&api.rest())
            .merge(probes::routes(service, readiness.clone(), metrics))
            .merge(clustering.routes())
            .merge(scaler.routes())
            .merge(docs::routes())
            .merge(identity.map(IdentityApi::routes).unwrap_or_default());
        let rest = protect(routes, authenticators.clone(), guard(ports.rest.local_addr()?));
        let methods = health::add_to(api.grpc(), readiness);
        let grpc = |address| {
            let router = grpc_router(methods.clone(), authenticators.clone(), guard(address));
            proto_numbering.serve(requests.around(router, Port::Grpc, &[]))
        };
        let both = OnePort {
            rest: requests.around(
                rest,
                Port::Rest,
                &[clustering::mark, scaler::mark, identity::mark, docs::mark],
            ),
            grpc: grpc(ports.rest.local_addr()?),
        };
        let alone = grpc(ports.grpc.local_addr()?);
        let grpc = OnePort { rest: alone.clone(), grpc: alone };
        let handle = Handle::new();
        tokio::spawn({
            let handle = handle.clone();
            async move {
                stop.await;
                // Close the API first, so that waiting requests get a response before their connections close.
                api.close();
                handle.graceful_shutdown(Some(GRACE));
            }
        });
        tokio::try_join!(
            listen(ports.rest, both, tls.clone(), handle.clone()),
            listen(ports.grpc, grpc, tls, handle),
        )?;
        Ok(())
    }
}

async fn listen(
    port: TcpListener,
    service: OnePort,
    tls: Option<Tls>,
    handle: Handle<SocketAddr>,
) -> io::Result<()> {
    let service = ServiceExt::<Request>::into_make_service(service);
    // A response over HTTP/2 is several small writes; with Nagle's algorithm each would wait for an acknowledgement.
    let acceptor = NoDelayAcceptor::new();
    match tls {
        Some(Tls(tls)) => {
            let limited = |tls: RustlsAcceptor| LimitedAcceptor::new(tls.acceptor(acceptor));
            let mut server = axum_server::from_tcp_rustls(port, tls)?.map(limited).handle(handle);
            connections::set_limits(server.http_builder());
            server.serve(service).await
        }
        None => {
            let mut server =
                axum_server::from_tcp(port)?.acceptor(LimitedAcceptor::new(acceptor)).handle(handle);
            connections::set_limits(server.http_builder());
            server.serve(service).await
        }
    }
}
