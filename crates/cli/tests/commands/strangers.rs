//! Servers that are not what they seem: of another version, of another kind, or none.

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

use crate::home::Home;

/// A server of another time.
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
async fn a_server_of_another_version_is_warned_of_and_used() {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap();
    let server = tonic::transport::Server::builder().add_service(AdminServiceServer::new(Old));
    let server = tokio::spawn(server.serve_with_incoming(incoming));
    let home = Home::new();
    let url = format!("http://{address}");
    let said = home.muster(&["whoami", "--server", &url]).done();
    assert!(said.out.starts_with("bob "), "{said:?}");
    assert!(said.err.contains("warning: the server is version 0.0.1 (old) and this program "), "{said:?}");
    let missing = home.muster(&["get", "--server", &url]);
    assert_eq!(missing.code, 1, "{missing:?}");
    server.abort();
}

#[test]
fn a_program_that_is_no_muster_is_called_so() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", other.local_addr().unwrap());
    let hangs_up = std::thread::spawn(move || drop(other.accept()));
    let home = Home::new();
    let said = home.muster(&["get", "--server", &url]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains(&format!("at {url}")), "{said:?}");
    assert!(said.err.contains("hint: "), "{said:?}");
    hangs_up.join().unwrap();
}

#[test]
fn nobody_at_the_address_is_1() {
    let closed = ClosedPort::reserve();
    let url = format!("http://{}", closed.address());
    let home = Home::new();
    let said = home.muster(&["get", "--server", &url]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains(&format!("no server answers at {url}: ")), "{said:?}");
    assert!(!home.data().exists(), "it started one all the same");
}
