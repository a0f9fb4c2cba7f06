//! Lists in pages: sizes, opaque tokens, sorting, filters.

use muster_core::cluster::ClusterStatus;
use muster_core::time::{Span, Timestamp};
use muster_store::reads::{ClusterQuery, ClusterSort, Deleted};
use muster_store::{Cursor, Direction};
use serde::{Deserialize, Serialize};

use super::find::{optional, optional_word, word};
use crate::access::Access;
use crate::error::ApiError;
use crate::token_signer::TokenSigner;

/// What a page token carries. It survives restarts, and is good for the same list only.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    /// Where the page before ended.
    cursor: Cursor,
    /// When it was given.
    at: i64,
}

/// The sizes and the place of a page.
pub(super) struct Paging<'r> {
    pub(super) page_size: i32,
    pub(super) page_token: &'r str,
    /// Which list it is: see [`super::page_scope`].
    pub(super) scope: String,
    pub(super) now: Timestamp,
    pub(super) retention: Span,
    pub(super) signer: &'r TokenSigner,
}

impl Paging<'_> {
    /// How many at most; 0 is everything.
    pub(super) fn limit(&self) -> Result<Option<u32>, ApiError> {
        match u32::try_from(self.page_size) {
            Ok(0) => Ok(None),
            Ok(size) => Ok(Some(size)),
            Err(_) => Err(ApiError::invalid(format!(
                "page_size is {}: from 0, which is everything, up is possible",
                self.page_size
            ))),
        }
    }

    /// Where the page begins.
    pub(super) fn after(&self) -> Result<Option<Cursor>, ApiError> {
        if self.page_token.is_empty() {
            return Ok(None);
        }
        let carried = self.signer.verify(&self.scope, self.page_token);
        let token: Option<Token> = carried.and_then(|carried| serde_json::from_slice(&carried).ok());
        let token = token.ok_or_else(|| {
            ApiError::invalid(format!(
                "page_token '{}' is none that was given for this list: begin again without one, \
                 or ask with the same filters and order",
                self.page_token
            ))
        })?;
        if self.now.since(Timestamp::from_micros(token.at)) > self.retention {
            let age = self.retention;
            return Err(ApiError::expired(format!(
                "page_token is older than {age}, and history ends there: begin again without one"
            )));
        }
        Ok(Some(token.cursor))
    }

    /// The token of the next page; empty on the last.
    pub(super) fn next(&self, cursor: Option<Cursor>) -> String {
        let encode = |cursor| {
            let token = Token { cursor, at: self.now.micros() };
            serde_json::to_vec(&token)
                .map(|carried| self.signer.sign(&self.scope, &carried))
                .unwrap_or_default()
        };
        cursor.map(encode).unwrap_or_default()
    }
}

/// The filters that all lists of clusters have.
pub(super) struct ClusterFilters<'r> {
    pub(super) state: &'r [String],
    pub(super) framework: &'r str,
    pub(super) user: &'r str,
    pub(super) label: &'r [String],
    pub(super) name_prefix: &'r str,
    pub(super) deleted: &'r str,
    pub(super) sort_by: &'r str,
}

/// The clusters that a caller may see and that the filters choose.
pub(super) fn cluster_query(access: &Access, filters: &ClusterFilters<'_>) -> Result<ClusterQuery, ApiError> {
    let statuses = filters.state.iter().map(|given| word::<ClusterStatus>("state", given));
    Ok(ClusterQuery {
        project: access.scope().map(str::to_owned),
        statuses: statuses.collect::<Result<_, _>>()?,
        framework: optional_word("framework", filters.framework)?,
        user: optional(filters.user),
        labels: filters.label.iter().map(|label| parse_label(label)).collect::<Result<_, _>>()?,
        name_prefix: optional(filters.name_prefix),
        deleted: parse_deleted(filters.deleted)?,
        sort: parse_sort(filters.sort_by, CLUSTER_SORTS)?,
        ..ClusterQuery::default()
    })
}

fn parse_label(given: &str) -> Result<(String, String), ApiError> {
    let pair = given.split_once('=').filter(|(key, _)| !key.is_empty());
    let pair = pair.map(|(key, value)| (key.to_owned(), value.to_owned()));
    pair.ok_or_else(|| ApiError::invalid(format!("label '{given}' is no filter: key=value is expected")))
}

fn parse_deleted(given: &str) -> Result<Deleted, ApiError> {
    match given {
        "" | "exclude" => Ok(Deleted::Exclude),
        "only" => Ok(Deleted::Only),
        "include" => Ok(Deleted::Include),
        other => {
            Err(ApiError::invalid(format!("deleted is '{other}': exclude, only or include is expected")))
        }
    }
}

const CLUSTER_SORTS: &[(&str, ClusterSort)] = &[
    ("created_at", ClusterSort::InitAt),
    ("name", ClusterSort::Name),
    ("state", ClusterSort::Status),
    ("framework", ClusterSort::Framework),
];

/// `name`, or `-name` for the other way round; the first of the table if nothing is said.
pub(super) fn parse_sort<S: Copy>(given: &str, known: &[(&str, S)]) -> Result<Vec<(S, Direction)>, ApiError> {
    let (word, direction) = match given.strip_prefix('-') {
        Some(word) => (word, Direction::Descending),
        None => (given, Direction::Ascending),
    };
    if word.is_empty() && direction == Direction::Ascending {
        return Ok(known.first().map(|(_, sort)| (*sort, direction)).into_iter().collect());
    }
    match known.iter().find(|(name, _)| *name == word) {
        Some((_, sort)) => Ok(vec![(*sort, direction)]),
        None => {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            Err(ApiError::invalid(format!(
                "sort_by is '{given}': one of {}, or the same with a - in front, is expected",
                names.join(", ")
            )))
        }
    }
}

/// The total as the wire has it.
pub(super) fn total(count: Option<u64>) -> Option<i32> {
    count.map(|count| i32::try_from(count).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", ClusterSort::InitAt, Direction::Ascending)]
    #[case("name", ClusterSort::Name, Direction::Ascending)]
    #[case("-created_at", ClusterSort::InitAt, Direction::Descending)]
    fn a_sort_is_read(#[case] given: &str, #[case] sort: ClusterSort, #[case] direction: Direction) {
        assert_eq!(parse_sort(given, CLUSTER_SORTS).unwrap(), [(sort, direction)]);
    }

    #[rstest]
    #[case("size")]
    #[case("-")]
    fn an_unknown_sort_is_refused_with_those_known(#[case] given: &str) {
        let error = parse_sort(given, CLUSTER_SORTS).unwrap_err();
        assert!(error.sentence.contains("created_at, name, state, framework"), "{error}");
    }

    fn paging<'r>(signer: &'r TokenSigner, page_token: &'r str, list: &str, now: i64) -> Paging<'r> {
        let (now, retention) = (Timestamp::from_micros(now), Span::from_secs(60));
        Paging { page_size: 1, page_token, scope: list.to_owned(), now, retention, signer }
    }

    /// A cursor as the store would give it.
    fn cursor() -> Cursor {
        serde_json::from_str(r#"{"keys": ["b"], "id": "x"}"#).unwrap()
    }

    #[test]
    fn a_token_leads_to_the_next_page_of_its_own_list() {
        let signer = TokenSigner::new("k");
        let token = paging(&signer, "", "clusters", 1).next(Some(cursor()));
        assert_eq!(paging(&signer, &token, "clusters", 2).after().unwrap(), Some(cursor()));
        let other = paging(&signer, &token, "nodes", 2).after().unwrap_err();
        assert_eq!((other.status.as_u16(), other.code), (400, tonic::Code::InvalidArgument));
        assert!(other.sentence.contains(&token), "{other}");
    }

    #[test]
    fn a_token_older_than_the_history_is_gone() {
        let signer = TokenSigner::new("k");
        let token = paging(&signer, "", "clusters", 0).next(Some(cursor()));
        let error = paging(&signer, &token, "clusters", 60_000_001).after().unwrap_err();
        assert_eq!((error.status.as_u16(), error.code), (410, tonic::Code::FailedPrecondition));
        assert!(error.sentence.contains("older than 1m"), "{error}");
    }

    #[rstest]
    #[case("gibberish")]
    #[case("e30")]
    fn a_forged_token_is_refused(#[case] token: &str) {
        let error = paging(&TokenSigner::new("k"), token, "clusters", 1).after().unwrap_err();
        assert_eq!(error.status, http::StatusCode::BAD_REQUEST);
    }
}
