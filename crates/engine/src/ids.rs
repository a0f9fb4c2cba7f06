//! Ids for what is new.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use uuid::Uuid;

/// An id for something new: random, but for its first eight characters, which count up from a random place.
///
/// Databases keep rows in the order of their ids, so that what is made together is written together; and the characters
/// that people look at and type tell things apart.
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
