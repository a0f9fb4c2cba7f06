//! A minimal HTTP client: one connection, no retries.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// The namespace of all clusters of the benchmarks.
pub const NAMESPACE: &str = "bench";

/// A persistent connection.
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    bearer: Option<String>,
}

impl Client {
    /// Opens a connection.
    pub async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // The next request reports a closed connection.
        tokio::spawn(connection);
        Ok(Self { sender, host: address.to_string(), bearer: None })
    }

    /// The same connection with a bearer token.
    #[must_use]
    pub fn with_bearer(self, secret: &str) -> Self {
        Self { bearer: Some(format!("Bearer {secret}")), ..self }
    }

    /// Sends a request, and reads the whole response.
    async fn send(&mut self, method: Method, path: &str, body: Vec<u8>) -> Result<(StatusCode, Bytes)> {
        let answer = self.begin(method, path, body).await?;
        let status = answer.status();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    }

    /// Sends a request, and returns once the headers of the response have arrived.
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

    /// Reads a streamed response line by line; the connection serves no other request.
    pub async fn follow(mut self, path: &str) -> Result<Lines> {
        let answer = self.begin(Method::GET, path, Vec::new()).await?;
        ensure!(answer.status().is_success(), "GET {path}: {}", answer.status());
        Ok(Lines { body: answer.into_body(), read: Vec::new(), _client: self })
    }

    /// Sends a GET, and returns the response whatever its status.
    pub async fn try_get(&mut self, path: &str) -> Result<(StatusCode, Bytes)> {
        self.send(Method::GET, path, Vec::new()).await
    }

    /// Sends a GET that must succeed.
    pub async fn get(&mut self, path: &str) -> Result<Bytes> {
        let (status, body) = self.try_get(path).await?;
        ensure!(status.is_success(), "GET {path}: {status}: {}", String::from_utf8_lossy(&body));
        Ok(body)
    }

    /// Sends a PATCH that must succeed.
    pub async fn patch(&mut self, path: &str, body: Vec<u8>) -> Result<Bytes> {
        let (status, answer) = self.send(Method::PATCH, path, body).await?;
        ensure!(status.is_success(), "PATCH {path}: {status}: {}", String::from_utf8_lossy(&answer));
        Ok(answer)
    }

    /// Sends a POST, and returns the response whatever its status.
    pub async fn post(&mut self, path: &str, body: Vec<u8>) -> Result<(StatusCode, Bytes)> {
        self.send(Method::POST, path, body).await
    }

    /// Creates a cluster of simulated nodes, waits until it is ACTIVE, and returns its id.
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

/// A streamed response.
pub struct Lines {
    body: Incoming,
    read: Vec<u8>,
    // The connection ends with its sender.
    _client: Client,
}

impl Lines {
    /// The next line, once it has arrived.
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
