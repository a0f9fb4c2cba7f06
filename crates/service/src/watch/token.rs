//! Reads and writes the tokens by which a later watch continues.

use muster_store::reads::Position;

use crate::lists::{ClusterQuery, PageScope};
use crate::token_signer::TokenSigner;

/// The text for an absent cluster.
const NONE: &str = "-";

/// The tokens of one watch. They are bound to its filters, because a watch with other filters would skip clusters
/// that were never sent.
pub(super) struct WatchTokens {
    purpose: String,
}

impl WatchTokens {
    pub(super) fn of(filter: &ClusterQuery) -> Self {
        Self { purpose: format!("watch {}", PageScope::clusters(filter, "").into_text()) }
    }

    pub(super) fn write(&self, signer: &TokenSigner, position: Position) -> String {
        let Position { change, cluster, known_until } = position;
        let cluster = cluster.map_or_else(|| NONE.to_owned(), |id| id.to_string());
        signer.sign(&self.purpose, format!("{change} {cluster} {known_until}").as_bytes())
    }

    pub(super) fn read(&self, signer: &TokenSigner, token: &str) -> Option<Position> {
        let carried = String::from_utf8(signer.verify(&self.purpose, token)?).ok()?;
        let mut parts = carried.split(' ');
        let (change, cluster, known_until) = (parts.next()?, parts.next()?, parts.next()?);
        let cluster = if cluster == NONE { None } else { Some(cluster.parse().ok()?) };
        Some(Position { change: change.parse().ok()?, cluster, known_until: known_until.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_a_watch_with_the_same_filters() {
        let (signer, tokens) = (TokenSigner::new("k"), WatchTokens::of(&ClusterQuery::default()));
        let id = "0190f3a2-7b1c-7d4e-8f00-1234567890ab".parse().unwrap();
        for position in [Position::at(7), Position { change: 9, cluster: Some(id), known_until: 7 }] {
            assert_eq!(tokens.read(&signer, &tokens.write(&signer, position)), Some(position));
        }
        let other = ClusterQuery { user: Some("ann".to_owned()), ..ClusterQuery::default() };
        assert_eq!(WatchTokens::of(&other).read(&signer, &tokens.write(&signer, Position::at(7))), None);
        assert_eq!(tokens.read(&signer, "7"), None);
    }
}
