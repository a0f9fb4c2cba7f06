//! Ports of servers that commands start: the default ports, else the next free ones.

use std::io;
use std::net::{SocketAddr, TcpListener};

use muster_api::server::Ports;

/// Number of ports above the default port that are tried.
const MAX_OFFSET: u16 = 1000;

/// Binds both ports, each at its address or at the next free port.
pub(super) fn bind_free(rest: SocketAddr, grpc: SocketAddr) -> io::Result<Ports> {
    Ok(Ports { rest: first_free(rest)?, grpc: first_free(grpc)? })
}

fn first_free(wanted: SocketAddr) -> io::Result<TcpListener> {
    let mut ports = wanted.port()..=wanted.port().saturating_add(MAX_OFFSET);
    let found = ports.find_map(|port| match TcpListener::bind(SocketAddr::new(wanted.ip(), port)) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => None,
        bound => Some(bound),
    });
    let none = || io::Error::new(io::ErrorKind::AddrInUse, format!("no free port from {wanted} on"));
    let why = |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {wanted}: {error}"));
    let listener = found.ok_or_else(none)?.map_err(why)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_skipped() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let ports = bind_free(address, address).unwrap();
        let (rest, grpc) = (ports.rest.local_addr().unwrap().port(), ports.grpc.local_addr().unwrap().port());
        assert!(address.port() < rest && rest < grpc, "{} {rest} {grpc}", address.port());
    }

    #[test]
    fn an_address_of_another_machine_is_an_error() {
        let error = bind_free("192.0.2.1:1".parse().unwrap(), "127.0.0.1:0".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("cannot listen on 192.0.2.1:1"), "{error:#}");
    }
}
