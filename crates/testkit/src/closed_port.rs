//! A port that refuses connections.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

/// A port of the loopback address at which nothing listens. No other process can bind it until this value is dropped.
#[derive(Debug)]
pub struct ClosedPort {
    address: SocketAddr,
    _bound: OwnedFd,
}

impl ClosedPort {
    /// Reserves a port: a socket that is bound but does not listen refuses connections.
    pub fn reserve() -> Self {
        let bound = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&bound, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = getsockname(&bound).expect("an address").try_into().expect("an IP address");
        Self { address, _bound: bound }
    }

    /// The address that refuses connections.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_refused_and_nothing_else_can_listen_there() {
        let port = ClosedPort::reserve();
        let refused = std::net::TcpStream::connect(port.address()).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        let taken = std::net::TcpListener::bind(port.address()).unwrap_err();
        assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
    }
}
