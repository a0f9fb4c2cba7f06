//! One connection to a server, with as little around it as possible.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// The namespace of all that the benchmarks make.
pub const NAMESPACE: &str = "bench";

/// A connection that is kept.
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    bearer: Option<String>,
}

impl Client {
    /// Connects.
    pub async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // Its end shows where something is sent next.
        tokio::spawn(connection);
        Ok(Self { sender, host: address.to_string(), bearer: None })
    }

    /// The same by somebody who knows a secret.
    #[must_use]
    pub fn knowing(self, secret: &str) -> Self {
        Self { bearer: Some(format!("Bearer {secret}")), ..self }
    }

    /// Sends a request, and reads the answer to its end.
    async fn send(&mut self, method: Method, path: &str, body: Vec<u8>) -> Result<(StatusCode, Bytes)> {
        let answer = self.begin(method, path, body).await?;
        let status = answer.status();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    }

    /// Sends a request, up to the beginning of its answer.
    async fn begin(&mut self, method: Method, path: &str, body: Vec<u8>) -> Result<Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.host)
            .header("content-type", "application/json");
        if let Some(bearer) = &self.bearer {
            request = request.header("authorization", bearer);
        }
        let request = request.body(Full::new(body.into()))?;
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Reads an answer that goes on, line by line; nothing else is read over this connection.
    pub async fn follow(mut self, path: &str) -> Result<Lines> {
        let answer = self.begin(Method::GET, path, Vec::new()).await?;
        ensure!(answer.status().is_success(), "GET {path}: {}", answer.status());
        Ok(Lines { body: answer.into_body(), read: Vec::new(), _client: self })
    }

    /// Reads, whatever the status.
    pub async fn try_get(&mut self, path: &str) -> Result<(StatusCode, Bytes)> {
        self.send(Method::GET, path, Vec::new()).await
    }

    /// Reads what has to be there.
    pub async fn get(&mut self, path: &str) -> Result<Bytes> {
        let (status, body) = self.try_get(path).await?;
        ensure!(status.is_success(), "GET {path}: {status}: {}", String::from_utf8_lossy(&body));
        Ok(body)
    }

    /// Changes what has to be there.
    pub async fn patch(&mut self, path: &str, body: Vec<u8>) -> Result<Bytes> {
        let (status, answer) = self.send(Method::PATCH, path, body).await?;
        ensure!(status.is_success(), "PATCH {path}: {status}: {}", String::from_utf8_lossy(&answer));
        Ok(answer)
    }

    /// Sends JSON, whatever the status.
    pub async fn post(&mut self, path: &str, body: Vec<u8>) -> Result<(StatusCode, Bytes)> {
        self.send(Method::POST, path, body).await
    }

    /// Creates a cluster of simulated nodes, waits until it is ACTIVE, and gives its id.
    pub async fn create(&mut self, name: &str, nodes: u32) -> Result<String> {
        let path = format!("{}?wait_for=reached&wait_timeout=60s", clusters());
        let body = json!({
            "name": name,
            "profile": "simulated.node-1.0",
            "cluster_spec": {"worker_group_spec": [{"group_name": "workers", "replicas": nodes}]},
        });
        let (status, answer) = self.send(Method::POST, &path, serde_json::to_vec(&body)?).await?;
        ensure!(status.is_success(), "creating {name}: {status}: {}", String::from_utf8_lossy(&answer));
        let cluster: Value = serde_json::from_slice(&answer)?;
        ensure!(cluster["state"] == "ACTIVE", "{name} is {}, not ACTIVE", cluster["state"]);
        Ok(cluster["id"].as_str().context("a cluster without an id")?.to_owned())
    }
}

/// An answer that goes on.
pub struct Lines {
    body: Incoming,
    read: Vec<u8>,
    // The connection ends with whoever can send.
    _client: Client,
}

impl Lines {
    /// The next line, once it is there.
    pub async fn next(&mut self) -> Result<Value> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Ok(serde_json::from_slice(&line)?);
            }
            let frame = self.body.frame().await.context("the answer ended")??;
            self.read.extend(frame.into_data().unwrap_or_default());
        }
    }
}

/// The path of the list of clusters.
pub fn clusters() -> String {
    format!("/apis/v1alpha2/namespaces/{NAMESPACE}/clusters")
}
