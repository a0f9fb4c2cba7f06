//! The addresses that requests to users' URLs may reach. Pure: the same inputs give the same result.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;
use serde::Deserialize;

/// A network such as `10.0.0.0/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Network(IpNet);

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        network.map(|network: IpNet| Self(network.trunc())).map_err(|_| {
            format!(
                "'{text}' is not a network: must be an address, or an address with a prefix length such as \
                 10.0.0.0/8"
            )
        })
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Networks that are closed unless the configuration allows them: this machine, the local network segment, the
/// metadata addresses at which clouds provide credentials, and the unspecified, multicast and broadcast addresses.
const CLOSED: [&str; 12] = [
    "0.0.0.0/8",
    "127.0.0.0/8",
    "100.100.100.200",
    "169.254.0.0/16",
    "192.0.0.192",
    "224.0.0.0/4",
    "255.255.255.255",
    "::",
    "::1",
    "fd00:ec2::254",
    "fe80::/10",
    "ff00::/8",
];

/// The rule about addresses. The narrowest network that contains an address decides. Of two equally narrow networks,
/// a configured one takes precedence over a default one, and a denied one over an allowed one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EgressRule {
    allowed: Vec<Network>,
    denied: Vec<Network>,
    closed: Vec<Network>,
}

impl EgressRule {
    /// A rule with these configured networks, and with the default ones unless `dev` is set.
    pub fn new(allowed: &[Network], denied: &[Network], dev: bool) -> Self {
        let closed =
            if dev { Vec::new() } else { CLOSED.iter().filter_map(|text| text.parse().ok()).collect() };
        Self { allowed: allowed.to_vec(), denied: denied.to_vec(), closed }
    }

    /// Closes more addresses unless the configuration allows them.
    pub fn close(&mut self, addresses: impl IntoIterator<Item = IpAddr>) {
        self.closed.extend(addresses.into_iter().map(|address| Network(embedded_ipv4(address).into())));
    }

    /// Returns true if the server may connect to an address.
    pub(crate) fn allows(&self, address: IpAddr) -> bool {
        let address = embedded_ipv4(address);
        let narrowest = |networks: &[Network]| {
            let around = networks.iter().filter(|network| network.0.contains(&address));
            around.map(|network| network.0.prefix_len()).max()
        };
        let (allowed, denied) = (narrowest(&self.allowed), narrowest(&self.denied));
        if allowed.is_none() && denied.is_none() {
            return narrowest(&self.closed).is_none();
        }
        allowed > denied && allowed >= narrowest(&self.closed)
    }
}

/// The IPv4 address that an IPv6 address contains, otherwise the address itself. Without this step, an IPv6 notation
/// would evade the rule.
fn embedded_ipv4(address: IpAddr) -> IpAddr {
    /// The prefix of IPv4 addresses in networks without IPv4 (RFC 6052).
    const TRANSLATED: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];
    match address.to_canonical() {
        IpAddr::V6(six) if six.segments()[..6] == TRANSLATED => IpAddr::V4(last_four(six)),
        address => address,
    }
}

fn last_four(address: Ipv6Addr) -> Ipv4Addr {
    let octets = address.octets();
    Ipv4Addr::new(octets[12], octets[13], octets[14], octets[15])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn networks(text: &str) -> Vec<Network> {
        text.split_whitespace().map(|network| network.parse().expect("a network")).collect()
    }

    fn allows(allowed: &str, denied: &str, dev: bool, address: &str) -> bool {
        EgressRule::new(&networks(allowed), &networks(denied), dev)
            .allows(address.parse().expect("an address"))
    }

    #[rstest]
    #[case("127.0.0.1")]
    #[case("127.8.9.1")]
    #[case("0.0.0.0")]
    #[case("169.254.169.254")]
    #[case("100.100.100.200")]
    #[case("192.0.0.192")]
    #[case("fd00:ec2::254")]
    #[case("224.0.0.1")]
    #[case("255.255.255.255")]
    #[case("::")]
    #[case("::1")]
    #[case("fe80::1")]
    #[case("ff02::1")]
    #[case("::ffff:127.0.0.1")]
    #[case("::ffff:169.254.169.254")]
    #[case("64:ff9b::a9fe:a9fe")]
    fn addresses_of_this_machine_and_segment_are_closed_except_for_development(#[case] address: &str) {
        assert!(!allows("", "", false, address));
        assert!(allows("", "", true, address));
        assert!(!allows("0.0.0.0/0 ::/0", "", false, address), "a wider network does not open them");
    }

    #[rstest]
    #[case("192.0.2.1")]
    #[case("10.0.0.1")]
    #[case("2001:db8::1")]
    #[case("fd00::1")]
    fn other_addresses_are_open(#[case] address: &str) {
        assert!(allows("", "", false, address));
    }

    #[rstest]
    #[case("127.0.0.0/8", "", "127.0.0.1", true)]
    #[case("127.0.0.1", "", "127.0.0.1", true)]
    #[case("127.0.0.1", "", "127.0.0.2", false)]
    #[case("127.0.0.1", "", "::ffff:127.0.0.1", true)]
    #[case("", "10.0.0.0/8", "10.1.2.3", false)]
    #[case("10.1.0.0/16", "10.0.0.0/8", "10.1.2.3", true)]
    #[case("10.1.0.0/16", "10.1.0.0/16", "10.1.2.3", false)]
    #[case("10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", false)]
    #[case("192.0.2.0/24", "0.0.0.0/0 ::/0", "192.0.2.7", true)]
    #[case("192.0.2.0/24", "0.0.0.0/0 ::/0", "198.51.100.1", false)]
    #[case("192.0.2.0/24", "0.0.0.0/0 ::/0", "2001:db8::1", false)]
    fn the_narrowest_network_decides(
        #[case] allowed: &str,
        #[case] denied: &str,
        #[case] address: &str,
        #[case] open: bool,
    ) {
        assert_eq!(allows(allowed, denied, false, address), open);
    }

    #[rstest]
    #[case("", "10.0.0.7", false)]
    #[case("", "::ffff:10.0.0.7", false)]
    #[case("", "10.0.0.8", true)]
    #[case("10.0.0.0/8", "10.0.0.7", false)]
    #[case("10.0.0.7", "10.0.0.7", true)]
    fn a_closed_address_must_be_allowed_by_itself(
        #[case] allowed: &str,
        #[case] address: &str,
        #[case] open: bool,
    ) {
        let mut rule = EgressRule::new(&networks(allowed), &[], false);
        rule.close(["::ffff:10.0.0.7".parse().expect("an address")]);
        assert_eq!(rule.allows(address.parse().expect("an address")), open);
    }

    #[test]
    fn denied_addresses_stay_closed_in_development() {
        assert!(!allows("", "127.0.0.0/8", true, "127.0.0.1"));
    }

    #[test]
    fn an_invalid_network_is_refused_by_name() {
        let refused = "10.0.0.0/33".parse::<Network>().unwrap_err();
        assert!(refused.starts_with("'10.0.0.0/33' is not a network"), "{refused}");
    }
}
