//! The common fields of list requests: page size, sort order, filters.

use muster_core::cluster::ClusterStatus;
use muster_service::lists::{ClusterQuery, ClusterSort, Deleted, Direction};

use super::find::{optional, optional_variant, variant};
use crate::error::ApiError;

/// Collects the page fields of a list request, whatever its message type.
macro_rules! page_request {
    ($request:expr) => {
        muster_service::lists::PageRequest {
            limit: $crate::core_api::pages::limit($request.page_size)?,
            token: &$request.page_token,
            sort_by: &$request.sort_by,
        }
    };
}

pub(super) use page_request;

/// Converts the page size to a limit; 0 means all objects.
pub(super) fn limit(page_size: i32) -> Result<Option<u32>, ApiError> {
    match u32::try_from(page_size) {
        Ok(0) => Ok(None),
        Ok(size) => Ok(Some(size)),
        Err(_) => {
            Err(ApiError::invalid(format!("page_size is {page_size}: must be 0 (all objects) or greater")))
        }
    }
}

/// The filters of every list of clusters.
pub(super) struct ClusterFilters<'r> {
    pub(super) state: &'r [String],
    pub(super) framework: &'r str,
    pub(super) user: &'r str,
    pub(super) label: &'r [String],
    pub(super) name_prefix: &'r str,
    pub(super) deleted: &'r str,
    pub(super) sort_by: &'r str,
}

/// Builds the query for the clusters that the filters select.
pub(super) fn cluster_query(filters: &ClusterFilters<'_>) -> Result<ClusterQuery, ApiError> {
    let statuses = filters.state.iter().map(|given| variant::<ClusterStatus>("state", given));
    Ok(ClusterQuery {
        statuses: statuses.collect::<Result<_, _>>()?,
        framework: optional_variant("framework", filters.framework)?,
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
    pair.ok_or_else(|| ApiError::invalid(format!("label is '{given}': must be key=value")))
}

fn parse_deleted(given: &str) -> Result<Deleted, ApiError> {
    match given {
        "" | "exclude" => Ok(Deleted::Exclude),
        "only" => Ok(Deleted::Only),
        "include" => Ok(Deleted::Include),
        other => Err(ApiError::invalid(format!("deleted is '{other}': must be exclude, only or include"))),
    }
}

const CLUSTER_SORTS: &[(&str, ClusterSort)] = &[
    ("created_at", ClusterSort::InitAt),
    ("name", ClusterSort::Name),
    ("state", ClusterSort::Status),
    ("framework", ClusterSort::Framework),
];

/// Parses `name` (ascending) or `-name` (descending); the default is the first row of the table, ascending.
pub(super) fn parse_sort<S: Copy>(given: &str, known: &[(&str, S)]) -> Result<Vec<(S, Direction)>, ApiError> {
    let (key, direction) = match given.strip_prefix('-') {
        Some(key) => (key, Direction::Descending),
        None => (given, Direction::Ascending),
    };
    if key.is_empty() && direction == Direction::Ascending {
        return Ok(known.first().map(|(_, sort)| (*sort, direction)).into_iter().collect());
    }
    match known.iter().find(|(name, _)| *name == key) {
        Some((_, sort)) => Ok(vec![(*sort, direction)]),
        None => {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            Err(ApiError::invalid(format!(
                "sort_by is '{given}': must be one of {}, or one with a leading -",
                names.join(", ")
            )))
        }
    }
}

/// Converts the total to its wire type.
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
        assert!(error.message.contains("created_at, name, state, framework"), "{error}");
    }
}
