//! Addresses of running clusters.

/// Returns host and port of an address, and the port, if it has one. The address is `host:port`, `scheme://host:port` or
/// `scheme://host:port/path`.
///
/// ```
/// use muster_core::address::host_and_port;
///
/// assert_eq!(host_and_port("tcp://fred.demo.svc:8786"), Some(("fred.demo.svc:8786", 8786)));
/// ```
#[must_use]
pub fn host_and_port(address: &str) -> Option<(&str, u16)> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let host_and_port = rest.split('/').next()?;
    let (_, port) = host_and_port.rsplit_once(':')?;
    Some((host_and_port, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("127.0.0.1:6379", Some(("127.0.0.1:6379", 6379)))]
    #[case("tcp://fred.demo.svc:8786", Some(("fred.demo.svc:8786", 8786)))]
    #[case("spark://[::1]:7077", Some(("[::1]:7077", 7077)))]
    #[case("http://host:80/path", Some(("host:80", 80)))]
    #[case("http://host:80/path:7", Some(("host:80", 80)))]
    #[case("host", None)]
    #[case("host:70000", None)]
    fn host_and_port_are_read_from_addresses(#[case] address: &str, #[case] expected: Option<(&str, u16)>) {
        assert_eq!(host_and_port(address), expected);
    }
}
