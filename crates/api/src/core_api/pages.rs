//! Lists in pages: sizes, opaque tokens, sorting, filters.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use muster_core::cluster::{ClusterStatus, Framework};
use muster_core::principal::Principal;
use muster_core::time::{Span, Timestamp};
use muster_store::reads::{ClusterQuery, ClusterSort, Deleted};
use muster_store::{Cursor, Direction};
use serde::{Deserialize, Serialize};

use crate::error::ApiError;

/// What a page token carries. It survives restarts, and is good for the same list only.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    /// Where the page before ended.
    cursor: Cursor,
    /// Which list.
    list: String,
    /// When it was given.
    at: i64,
}

/// The sizes and the place of a page.
pub(super) struct Paging<'r> {
    pub(super) page_size: i32,
    pub(super) page_token: &'r str,
    pub(super) list: String,
    pub(super) now: Timestamp,
    pub(super) retention: Span,
}

impl Paging<'_> {
    /// How many at most; 0 is everything.
    pub(super) fn limit(&self) -> Result<Option<u32>, ApiError> {
        match u32::try_from(self.page_size) {
            Ok(0) => Ok(None),
            Ok(size) => Ok(Some(size)),
            Err(_) => {
                Err(ApiError::invalid(format!("page_size is {}: it cannot be negative", self.page_size)))
            }
        }
    }

    /// Where the page begins.
    pub(super) fn after(&self) -> Result<Option<Cursor>, ApiError> {
        if self.page_token.is_empty() {
            return Ok(None);
        }
        let bad = || {
            ApiError::invalid(format!(
                "page_token '{}' is none that was given for this list: begin again without one",
                self.page_token
            ))
        };
        let bytes = URL_SAFE_NO_PAD.decode(self.page_token).map_err(|_| bad())?;
        let token: Token = serde_json::from_slice(&bytes).map_err(|_| bad())?;
        if token.list != self.list {
            return Err(bad());
        }
        if self.now.since(Timestamp::from_micros(token.at)) > self.retention {
            let days = self.retention.secs() / 86_400;
            return Err(ApiError::expired(format!(
                "page_token is older than {days} days: begin again without one"
            )));
        }
        Ok(Some(token.cursor))
    }

    /// The token of the next page; empty on the last.
    pub(super) fn next(&self, cursor: Option<Cursor>) -> String {
        let encode = |cursor| {
            let token = Token { cursor, list: self.list.clone(), at: self.now.micros() };
            serde_json::to_vec(&token).map(|bytes| URL_SAFE_NO_PAD.encode(bytes)).unwrap_or_default()
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
pub(super) fn cluster_query(
    principal: &Principal,
    filters: &ClusterFilters<'_>,
) -> Result<ClusterQuery, ApiError> {
    let statuses = filters.state.iter().map(|word| word.parse::<ClusterStatus>().map_err(ApiError::from));
    let framework = Some(filters.framework).filter(|word| !word.is_empty());
    Ok(ClusterQuery {
        project: (!principal.is_admin()).then(|| principal.project.clone()),
        statuses: statuses.collect::<Result<_, _>>()?,
        framework: framework.map(|word| word.parse::<Framework>().map_err(ApiError::from)).transpose()?,
        user: some(filters.user),
        labels: filters.label.iter().map(|label| parse_label(label)).collect::<Result<_, _>>()?,
        name_prefix: some(filters.name_prefix),
        deleted: parse_deleted(filters.deleted)?,
        sort: parse_sort(filters.sort_by, CLUSTER_SORTS)?,
        ..ClusterQuery::default()
    })
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
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

    #[rstest]
    #[case("gibberish")]
    #[case("e30")]
    fn a_forged_token_is_refused(#[case] token: &str) {
        let paging = Paging {
            page_size: 1,
            page_token: token,
            list: "x".into(),
            now: Timestamp::from_micros(1),
            retention: Span::from_secs(1),
        };
        assert_eq!(paging.after().unwrap_err().status, http::StatusCode::BAD_REQUEST);
    }
}
