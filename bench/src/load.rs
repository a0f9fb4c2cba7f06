//! Requests over several connections at once, for a while.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use crate::client::Client;

/// Reads these paths in turn over each connection until `during` has passed, with this bearer token, and returns the
/// number of reads per second.
pub async fn reads(
    address: SocketAddr,
    paths: &[String],
    connections: usize,
    during: Duration,
    secret: Option<&str>,
) -> Result<f64> {
    let mut clients = Vec::new();
    for _ in 0..connections {
        let client = Client::connect(address).await?;
        clients.push(match secret {
            Some(secret) => client.with_bearer(secret),
            None => client,
        });
    }
    let started = Instant::now();
    let mut running = JoinSet::new();
    for (first, mut client) in clients.into_iter().enumerate() {
        let paths = paths.to_vec();
        running.spawn(async move {
            let mut count = 0_u32;
            for path in paths.iter().cycle().skip(first) {
                if started.elapsed() >= during {
                    break;
                }
                client.get(path).await?;
                count += 1;
            }
            anyhow::Ok(count)
        });
    }
    let mut count = 0;
    while let Some(ended) = running.join_next().await {
        count += ended??;
    }
    Ok(f64::from(count) / started.elapsed().as_secs_f64())
}
