//! A server that sends the same bytes in response to every request, and keeps connections open where HTTP lets it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

pub(super) struct Server {
    address: SocketAddr,
    received: Arc<Mutex<Received>>,
    /// Ends the server when the test ends.
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct Received {
    connections: usize,
    requests: Vec<String>,
}

impl Server {
    pub(super) async fn start(response: impl Into<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, received) = (listener.local_addr().unwrap(), Arc::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, response.into(), Arc::clone(&received)));
        Self { address, received, _tasks: tasks }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.received.lock().unwrap().requests.clone()
    }

    pub(super) fn connections(&self) -> usize {
        self.received.lock().unwrap().connections
    }
}

async fn serve(listener: TcpListener, response: Vec<u8>, received: Arc<Mutex<Received>>) {
    let mut connections = JoinSet::new();
    while let Ok((mut connection, _)) = listener.accept().await {
        received.lock().unwrap().connections += 1;
        let (response, received) = (response.clone(), Arc::clone(&received));
        connections.spawn(async move {
            while let Some(request) = read_request(&mut connection).await {
                received.lock().unwrap().requests.push(request);
                // The client hangs up when it has read enough.
                if connection.write_all(&response).await.is_err() {
                    return;
                }
            }
        });
    }
}

async fn read_request(connection: &mut TcpStream) -> Option<String> {
    let mut request = String::new();
    let mut buffer = [0; 1024];
    while !is_complete(&request) {
        match connection.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => request.push_str(std::str::from_utf8(&buffer[..read]).expect("requests are ASCII")),
        }
    }
    Some(request)
}

fn is_complete(request: &str) -> bool {
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    let lengths = head.lines().filter_map(|line| line.strip_prefix("content-length: "));
    body.len() >= lengths.map(|length| length.parse().expect("a length is a number")).next().unwrap_or(0)
}
