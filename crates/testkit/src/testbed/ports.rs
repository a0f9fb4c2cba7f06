//! The choice of free ports.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// Ports of the loopback address that were free a moment ago, all different.
pub(super) fn free<const N: usize>() -> io::Result<[u16; N]> {
    // All listeners stay open until the last port is chosen, so that the ports differ.
    let mut held = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// Returns true if the end of a log shows that another process took a port meanwhile.
pub(super) fn was_taken(log: &str) -> bool {
    log.to_lowercase().contains("address already in use")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn free_ports_are_different() {
        let mut ports = free::<8>().unwrap().to_vec();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 8);
    }

    #[rstest]
    #[case("failed to listen on 127.0.0.1:1: listen tcp 127.0.0.1:1: bind: address already in use", true)]
    #[case("could not bind IPv4 address \"127.0.0.1\": Address already in use", true)]
    #[case("unknown flag: --secure-prot", false)]
    fn a_taken_port_is_known_by_its_words(#[case] log: &str, #[case] taken: bool) {
        assert_eq!(was_taken(log), taken);
    }
}
