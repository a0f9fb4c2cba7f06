//! Reads the beginning of a response, so that a long one cannot exhaust the memory.

use reqwest::Response;

/// Reads at most `limit` bytes of a body.
pub(crate) async fn read_at_most(mut response: Response, limit: usize) -> Result<Vec<u8>, reqwest::Error> {
    let mut all = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = limit.saturating_sub(all.len());
        all.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if all.len() == limit {
            break;
        }
    }
    Ok(all)
}
