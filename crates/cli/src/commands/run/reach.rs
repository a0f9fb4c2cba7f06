//! Whether a cluster's address can be reached from here.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a connection may take.
const AT_MOST: Duration = Duration::from_secs(5);

/// Connects to `host:port`, `scheme://host:port` or `scheme://host:port/path`; the error says why that fails.
pub(super) async fn check(address: &str) -> Result<(), String> {
    let Some(place) = place(address) else { return Ok(()) };
    match timeout(AT_MOST, TcpStream::connect(place)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(format!("{address}: {error}")),
        Err(_) => Err(format!("{address} has not answered within {} s", AT_MOST.as_secs())),
    }
}

/// Host and port of an address; none if it has no port.
fn place(address: &str) -> Option<&str> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let place = rest.split('/').next()?;
    let (_, port) = place.rsplit_once(':')?;
    port.parse::<u16>().ok().map(|_| place)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("127.0.0.1:6379", Some("127.0.0.1:6379"))]
    #[case("tcp://fred.demo.svc:8786", Some("fred.demo.svc:8786"))]
    #[case("spark://[::1]:7077", Some("[::1]:7077"))]
    #[case("http://host:80/path", Some("host:80"))]
    #[case("host", None)]
    fn an_address_names_a_place(#[case] address: &str, #[case] expected: Option<&str>) {
        assert_eq!(place(address), expected);
    }

    #[tokio::test]
    async fn what_does_not_listen_cannot_be_reached() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("tcp://{}", listener.local_addr().expect("an address"));
        assert_eq!(check(&address).await, Ok(()));
        drop(listener);
        let refused = check(&address).await.expect_err("nothing listens");
        assert!(refused.starts_with(&address), "{refused}");
    }
}
