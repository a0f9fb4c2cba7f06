//! Ports for a server that nobody gave any: the usual ones, else the next that are free.

use std::io;
use std::net::{SocketAddr, TcpListener};

use muster_api::server::Ports;

/// How far from the usual port a free one is looked for.
const REACH: u16 = 1000;

/// Binds both, each at its address or above.
pub(super) fn bind_free(rest: SocketAddr, grpc: SocketAddr) -> io::Result<Ports> {
    Ok(Ports { rest: first_free(rest)?, grpc: first_free(grpc)? })
}

fn first_free(wanted: SocketAddr) -> io::Result<TcpListener> {
    let mut ports = wanted.port()..=wanted.port().saturating_add(REACH);
    let found = ports.find_map(|port| match TcpListener::bind(SocketAddr::new(wanted.ip(), port)) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => None,
        bound => Some(bound),
    });
    let none = || io::Error::new(io::ErrorKind::AddrInUse, format!("no port is free from {wanted} on"));
    let why = |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {wanted}: {error}"));
    let listener = found.ok_or_else(none)?.map_err(why)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_another_program_has_is_passed_over() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let ports = bind_free(address, address).unwrap();
        let (rest, grpc) = (ports.rest.local_addr().unwrap().port(), ports.grpc.local_addr().unwrap().port());
        assert!(address.port() < rest && rest < grpc, "{} {rest} {grpc}", address.port());
    }

    #[test]
    fn an_address_that_is_not_ours_is_named() {
        let error = bind_free("192.0.2.1:1".parse().unwrap(), "127.0.0.1:0".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("cannot listen on 192.0.2.1:1"), "{error:#}");
    }
}
