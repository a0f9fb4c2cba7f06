//! Commands against servers of another version, other programs, and closed ports.

use std::net::TcpListener;

use muster_proto::v1alpha2::admin_service_server::{AdminService, AdminServiceServer};
use muster_proto::v1alpha2::{
    InfoRequest, InfoResponse, ListShapesRequest, ListShapesResponse, ShutdownRequest, WhoAmIRequest,
    WhoAmIResponse,
};
use muster_proto::wkt::Empty;
use muster_testkit::ClosedPort;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, async_trait};

use crate::harness::Harness;

/// A server of another version.
struct Old;

#[async_trait]
impl AdminService for Old {
    async fn info(&self, _: Request<InfoRequest>) -> Result<Response<InfoResponse>, Status> {
        let version = "0.0.1 (old)".to_owned();
        Ok(Response::new(InfoResponse { version, ..InfoResponse::default() }))
    }

    async fn who_am_i(&self, _: Request<WhoAmIRequest>) -> Result<Response<WhoAmIResponse>, Status> {
        Ok(Response::new(WhoAmIResponse { name: "bob".to_owned(), ..WhoAmIResponse::default() }))
    }

    async fn list_shapes(
        &self,
        _: Request<ListShapesRequest>,
    ) -> Result<Response<ListShapesResponse>, Status> {
        Err(Status::unimplemented("not in my time"))
    }

    async fn shutdown(&self, _: Request<ShutdownRequest>) -> Result<Response<Empty>, Status> {
        Err(Status::unimplemented("not in my time"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_another_version_is_used_with_a_warning() {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap();
    let server = tonic::transport::Server::builder().add_service(AdminServiceServer::new(Old));
    let server = tokio::spawn(server.serve_with_incoming(incoming));
    let harness = Harness::new();
    let url = format!("http://{address}");
    let output = harness.muster(&["whoami", "--server", &url]).success();
    assert!(output.out.starts_with("bob "), "{output:?}");
    assert!(
        output.err.contains("warning: the server is version 0.0.1 (old) and this program "),
        "{output:?}"
    );
    let missing = harness.muster(&["get", "--server", &url]);
    assert_eq!(missing.code, 1, "{missing:?}");
    server.abort();
}

#[test]
fn another_program_at_the_address_is_named_in_the_error() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", other.local_addr().unwrap());
    let hangs_up = std::thread::spawn(move || drop(other.accept()));
    let harness = Harness::new();
    let output = harness.muster(&["get", "--server", &url]);
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains(&format!("at {url}")), "{output:?}");
    assert!(output.err.contains("hint: "), "{output:?}");
    hangs_up.join().unwrap();
}

#[test]
fn a_closed_port_is_1() {
    let closed = ClosedPort::reserve();
    let url = format!("http://{}", closed.address());
    let harness = Harness::new();
    let output = harness.muster(&["get", "--server", &url]);
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains(&format!("no server answers at {url}: ")), "{output:?}");
    assert!(!harness.data().exists(), "a server was started");
}
