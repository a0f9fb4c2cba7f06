//! Checks the addresses on which processes listen.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::harness::Harness;

/// State of a listening socket in the kernel's tables.
const LISTENING: &str = "0A";

impl Harness {
    /// Asserts that no process of the server listens beyond this machine.
    pub(crate) fn listens_on_loopback_only(&self) {
        let sockets: HashMap<String, IpAddr> =
            ["tcp", "tcp6"].into_iter().flat_map(|table| listening(&format!("/proc/net/{table}"))).collect();
        let mut open = 0;
        for (pid, command) in self.traces().processes {
            for address in inodes(pid).iter().filter_map(|inode| sockets.get(inode)) {
                assert!(address.to_canonical().is_loopback(), "{command} listens on {address}");
                open += 1;
            }
        }
        assert!(open > 0, "some process listens");
    }
}

/// Maps the inodes of listening sockets to their addresses.
fn listening(table: &str) -> Vec<(String, IpAddr)> {
    let text = fs::read_to_string(table).unwrap_or_default();
    let read = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (address, _) = fields.get(1)?.split_once(':')?;
        (fields.get(3) == Some(&LISTENING)).then(|| Some(((*fields.get(9)?).to_owned(), parse(address)?)))?
    };
    text.lines().skip(1).filter_map(read).collect()
}

/// Parses 32-bit words in the byte order of the machine.
fn parse(address: &str) -> Option<IpAddr> {
    let word = |place: usize| u32::from_str_radix(address.get(place * 8..place * 8 + 8)?, 16).ok();
    let bytes = |place: usize| word(place).map(u32::to_ne_bytes);
    if address.len() == 8 {
        return Some(Ipv4Addr::from(bytes(0)?).into());
    }
    let words = [bytes(0)?, bytes(1)?, bytes(2)?, bytes(3)?];
    Some(Ipv6Addr::from(<[u8; 16]>::try_from(words.concat()).ok()?).into())
}

fn inodes(pid: i32) -> Vec<String> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let socket = |target: std::path::PathBuf| {
        Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    };
    files.filter_map(|file| socket(fs::read_link(file.path()).ok()?)).collect()
}
