//! Generates the ids of new objects.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use uuid::Uuid;

/// Returns a new id: random, except for its first eight characters, which count up from a random number.
///
/// Rows that are inserted together get neighbouring ids, which keeps index writes local; and the characters that people
/// read and type differ.
#[must_use]
pub fn new_id() -> Uuid {
    static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| AtomicU32::new(Uuid::new_v4().as_fields().0));
    let mut bytes = Uuid::new_v4().into_bytes();
    bytes[..4].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    Uuid::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_in_what_people_type_and_in_all_that_follows() {
        let ids: Vec<Uuid> = (0..100).map(|_| new_id()).collect();
        let firsts: std::collections::HashSet<u32> = ids.iter().map(|id| id.as_fields().0).collect();
        assert_eq!(firsts.len(), ids.len());
        let rests: std::collections::HashSet<[u8; 8]> = ids.iter().map(|id| *id.as_fields().3).collect();
        assert_eq!(rests.len(), ids.len());
        assert!(ids.iter().all(|id| id.get_version_num() == 4));
    }
}
