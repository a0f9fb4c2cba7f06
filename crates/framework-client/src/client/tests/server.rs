//! A server that sends the same bytes in response to every request, and keeps connections open where HTTP lets it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

pub(super) struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    /// Ends the server when the test ends.
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    connections: usize,
    requests: Vec<String>,
}

impl Server {
    pub(super) async fn start(response: impl Into<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Arc::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, response.into(), Arc::clone(&seen)));
        Self { address, seen, _tasks: tasks }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().requests.clone()
    }

    pub(super) fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }
}

async fn serve(listener: TcpListener, response: Vec<u8>, seen: Arc<Mutex<Seen>>) {
    let mut connections = JoinSet::new();
    while let Ok((mut connection, _)) = listener.accept().await {
        seen.lock().unwrap().connections += 1;
        let (response, seen) = (response.clone(), Arc::clone(&seen));
        connections.spawn(async move {
            while let Some(request) = read_request(&mut connection).await {
                seen.lock().unwrap().requests.push(request);
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
