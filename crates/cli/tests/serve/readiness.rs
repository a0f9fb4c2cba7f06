//! The readiness probe, and its reasons.

use std::process::Command;

use muster_testkit::{PostgresProxy, Process, SmallDisk};
use reqwest::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::server::{Server, TIMEOUT, cluster};

/// More clusters than fit into the free part of the database's log on a full disk.
const ENOUGH: usize = 300;

/// Locks a database file for writing until standard input is closed.
const LOCK: &str = "import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute('BEGIN IMMEDIATE')
print('locked', flush=True)
sys.stdin.read()
connection.execute('COMMIT')";

impl Server {
    async fn is_unready(&self, words: &str) {
        let (status, body) = self.probe("/readyz").await;
        assert_eq!((status, body["status"].as_str()), (503, Some("unready")), "{body}");
        assert!(body["reason"].as_str().unwrap_or_default().contains(words), "{body}");
        assert_eq!(self.probe("/healthz").await.0, 200, "the process itself is well");
        assert_eq!(self.grpc_health().await, ServingStatus::NotServing);
    }

    /// Returns the health of the whole server in `grpc.health.v1`.
    async fn grpc_health(&self) -> ServingStatus {
        let endpoint = Endpoint::from_shared(self.grpc.clone()).expect("an address");
        let channel = endpoint.connect().await.expect("a connection");
        let mut client = HealthClient::new(channel);
        client.check(HealthCheckRequest::default()).await.expect("an answer").into_inner().status()
    }

    /// Asserts that the first successful write makes the server ready again.
    async fn is_ready_after_a_write(&self) {
        self.create("later", 1).await;
        let (status, body) = self.probe("/readyz").await;
        assert_eq!((status, body["status"].as_str()), (200, Some("ready")), "{body}");
        assert_eq!(self.grpc_health().await, ServingStatus::Serving);
    }
}

#[tokio::test]
async fn a_locked_database_file_is_reported() {
    let server = Server::dev().await;
    let mut command = Command::new("python3");
    command.args(["-c", LOCK]).arg(server.data().join("muster.db"));
    let mut locker = Process::spawn("locker", &command);
    locker.wait_for_line("locked", TIMEOUT).await;
    let refused = server.refusal(Method::POST, "/namespaces/demo/clusters", Some(cluster("fred", 1))).await;
    assert_eq!((refused.0, refused.1.as_str()), (503, "Unavailable"), "{}", refused.2);
    server.is_unready("locked").await;
    locker.close_stdin();
    assert!(locker.wait_for_exit(TIMEOUT).await.success());
    server.is_ready_after_a_write().await;
}

#[tokio::test]
async fn a_watch_of_health_reports_changes() {
    let server = Server::dev().await;
    let endpoint = Endpoint::from_shared(server.grpc.clone()).expect("an address");
    let mut client = HealthClient::new(endpoint.connect().await.expect("a connection"));
    let watch = client.watch(HealthCheckRequest::default()).await.expect("a watch");
    let mut watch = watch.into_inner();
    let mut next = async || {
        let next = tokio::time::timeout(TIMEOUT, watch.message()).await.expect("a change");
        next.expect("no error").expect("no end").status()
    };
    assert_eq!(next().await, ServingStatus::Serving);
    let mut command = Command::new("python3");
    command.args(["-c", LOCK]).arg(server.data().join("muster.db"));
    let mut locker = Process::spawn("locker", &command);
    locker.wait_for_line("locked", TIMEOUT).await;
    assert_eq!(next().await, ServingStatus::NotServing);
    locker.close_stdin();
    assert!(locker.wait_for_exit(TIMEOUT).await.success());
    assert_eq!(next().await, ServingStatus::Serving);
}

#[tokio::test]
async fn a_full_disk_is_reported() {
    let Some(disk) = SmallDisk::mount("4m") else { return };
    let (folder, filler) = (tempfile::tempdir().unwrap(), disk.path().join("filler"));
    let mut server = Server::start_on(folder, disk.path().join("data"), &["--dev"]).await;
    SmallDisk::fill(&filler);
    let mut refused = None;
    for number in 0..ENOUGH {
        let path = "/namespaces/demo/clusters?wait_for=accepted";
        let body = cluster(&format!("c{number}"), 1);
        let answer = server.call(Method::POST, path, Some(body)).await;
        if !answer.status().is_success() {
            refused = Some(answer.status().as_u16());
            break;
        }
    }
    assert_eq!(refused, Some(503), "the disk is full");
    server.is_unready("full").await;
    std::fs::remove_file(filler).unwrap();
    server.is_ready_after_a_write().await;
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn a_probe_does_not_wait_for_an_unreachable_database() {
    let Some(postgres) = muster_testkit::postgres().await else { return };
    let database = postgres.database().await;
    let proxy = PostgresProxy::start(database.url()).await;
    let server = Server::start(&["--dev", "--database-url", proxy.url()]).await;
    assert_eq!(server.probe("/readyz").await.0, 200);
    proxy.cut();
    server.is_unready("did not answer within 800 ms").await;
}

/// The server cannot register while a row of its table is locked.
#[tokio::test]
async fn a_server_that_cannot_register_answers_its_probes_with_the_reason() {
    let Some(postgres) = muster_testkit::postgres().await else { return };
    let database = postgres.database().await;
    let mut first = Server::start(&["--dev", "--database-url", database.url()]).await;
    assert!(first.stop().await.success());
    let lock = "import subprocess, sys
psql = subprocess.Popen(['psql', '-q', sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
psql.stdin.write('BEGIN; LOCK TABLE engines IN ACCESS EXCLUSIVE MODE; SELECT 1;\\n')
psql.stdin.flush()
psql.stdout.readline()
print('locked', flush=True)
sys.stdin.read()
psql.stdin.write('COMMIT;\\n')
psql.stdin.close()
psql.wait()";
    let mut command = Command::new("python3");
    command.args(["-c", lock, database.url()]);
    let mut locker = Process::spawn("locker", &command);
    locker.wait_for_line("locked", TIMEOUT).await;
    let server = Server::start(&["--dev", "--database-url", database.url()]).await;
    server.is_unready("cannot renew its lease").await;
    locker.close_stdin();
    assert!(locker.wait_for_exit(TIMEOUT).await.success());
    muster_testkit::eventually("a server that is ready", TIMEOUT, async || {
        match server.probe("/readyz").await {
            (200, _) => Ok(()),
            (_, body) => Err(body),
        }
    })
    .await;
}

#[tokio::test]
async fn a_stop_does_not_wait_for_an_unreachable_database() {
    let Some(postgres) = muster_testkit::postgres().await else { return };
    let database = postgres.database().await;
    let proxy = PostgresProxy::start(database.url()).await;
    let mut server = Server::start(&["--dev", "--database-url", proxy.url()]).await;
    server.create("fred", 1).await;
    proxy.cut();
    assert!(server.stop().await.success());
}

/// Clients that send nothing must not occupy connections forever.
#[tokio::test]
async fn a_request_without_its_head_is_ended() {
    let server = Server::dev().await;
    let address = server.url("").trim_start_matches("http://").split('/').next().unwrap().to_owned();
    let mut connection = tokio::net::TcpStream::connect(address).await.unwrap();
    connection.write_all(b"GET /healthz HTTP/1.1\r\nHost: local").await.unwrap();
    let mut answer = Vec::new();
    let ended = tokio::time::timeout(TIMEOUT * 2, connection.read_to_end(&mut answer)).await;
    assert!(ended.is_ok(), "the server waits for ever");
}
