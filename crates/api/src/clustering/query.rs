//! Query strings: filters, order and pages of lists.

use std::str::FromStr;

use muster_service::lists::{Direction, page_length};
use serde_json::Value;
use uuid::Uuid;

use super::field_reader;
use super::senlin_error::SenlinError;

/// The keys and values of a query string, in the order of the string.
#[derive(Debug, Clone, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn read(query: &str) -> Self {
        Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// Returns all values of a key.
    pub(super) fn all(&self, key: &str) -> Vec<&str> {
        self.0.iter().filter(|(given, _)| given == key).map(|(_, value)| value.as_str()).collect()
    }

    /// Returns the last value of a key.
    pub(super) fn last(&self, key: &str) -> Option<&str> {
        self.all(key).pop()
    }

    /// Reads a boolean, in any case.
    pub(super) fn boolean(&self, key: &str) -> Result<Option<bool>, SenlinError> {
        let Some(given) = self.last(key) else { return Ok(None) };
        match given.to_lowercase().as_str() {
            "true" => Ok(Some(true)),
            "false" => Ok(Some(false)),
            _ => Err(SenlinError::form(format!("Invalid value '{given}' specified for '{key}'"))),
        }
    }

    /// Refuses unknown keys. `quoted` selects between the two forms of the message, which clients compare.
    pub(super) fn only(&self, known: &[&str], quoted: bool) -> Result<(), SenlinError> {
        match self.0.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, _)) if quoted => Err(SenlinError::form(format!("Invalid parameter '{key}'"))),
            Some((key, _)) => Err(SenlinError::form(format!("Invalid parameter {key}"))),
        }
    }

    /// The values of a filter on an enumeration.
    pub(super) fn variants<T: FromStr>(&self, key: &str) -> Result<Vec<T>, SenlinError> {
        let read = |given: &str| {
            given.parse().map_err(|_| SenlinError::form(format!("Field value {given} is invalid")))
        };
        self.all(key).into_iter().map(read).collect()
    }

    /// The values of a filter on a text.
    pub(super) fn texts(&self, key: &str) -> Vec<String> {
        self.all(key).into_iter().map(str::to_owned).collect()
    }

    /// Reads the largest number of objects on a page. Clients request the next page with the last id as marker, until a
    /// page is empty.
    pub(super) fn limit(&self) -> Result<u32, SenlinError> {
        let limit =
            self.last("limit").map(|given| field_reader::count("limit", &Value::String(given.to_owned())));
        Ok(page_length(limit.transpose()?))
    }

    /// Reads the id of the object after which the page begins.
    pub(super) fn marker(&self) -> Result<Option<String>, SenlinError> {
        let Some(given) = self.last("marker") else { return Ok(None) };
        match given.parse::<Uuid>() {
            Ok(id) => Ok(Some(id.to_string())),
            Err(_) => Err(SenlinError::form(format!("The value for marker is not a valid UUID: '{given}'."))),
        }
    }

    /// Reads the order of a list; without one, the order is ascending by the default key.
    pub(super) fn sort<T: Copy>(
        &self,
        keys: &[(&str, T)],
        default: T,
    ) -> Result<Vec<(T, Direction)>, SenlinError> {
        let given = self.given_sort(keys)?;
        Ok(if given.is_empty() { vec![(default, Direction::Ascending)] } else { given })
    }

    /// Reads the order that the request gives, by the keys of the list.
    pub(super) fn given_sort<T: Copy>(&self, keys: &[(&str, T)]) -> Result<Vec<(T, Direction)>, SenlinError> {
        let Some(given) = self.last("sort") else { return Ok(Vec::new()) };
        let one = |part: &str| {
            let (key, direction) = part.trim().split_once(':').unwrap_or((part.trim(), "asc"));
            if key.is_empty() {
                return Err(SenlinError::form("Missing sort key for 'sort'."));
            }
            let known = keys.iter().find(|(known, _)| *known == key);
            let (_, key) = known
                .ok_or_else(|| SenlinError::form(format!("Unsupported sort key '{key}' for 'sort'.")))?;
            let direction = match direction {
                "asc" => Direction::Ascending,
                "desc" => Direction::Descending,
                other => {
                    return Err(SenlinError::form(format!("Unsupported sort dir '{other}' for 'sort'.")));
                }
            };
            Ok((*key, direction))
        };
        given.split(',').map(one).collect()
    }
}

/// The keys that every list accepts.
pub(super) const PAGING: [&str; 4] = ["limit", "marker", "sort", "global_project"];

/// Returns the keys of a list: the keys of every list, and its filters.
pub(super) fn keys(filters: &[&'static str]) -> Vec<&'static str> {
    PAGING.iter().chain(filters).copied().collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const SORTS: [(&str, u8); 2] = [("name", 1), ("init_at", 2)];

    fn message_of<T: std::fmt::Debug>(result: Result<T, SenlinError>) -> String {
        result.unwrap_err().message
    }

    #[rstest]
    #[case("sort=foo", "Unsupported sort key 'foo' for 'sort'.")]
    #[case("sort=name:up", "Unsupported sort dir 'up' for 'sort'.")]
    #[case("sort=:asc", "Missing sort key for 'sort'.")]
    #[case("sort=", "Missing sort key for 'sort'.")]
    fn bad_orders_are_refused(#[case] query: &str, #[case] message: &str) {
        assert_eq!(message_of(Query::read(query).sort(&SORTS, 1)), message);
    }

    #[test]
    fn an_order_has_keys_and_directions() {
        let sort = |query| Query::read(query).sort(&SORTS, 2).unwrap();
        assert_eq!(sort("sort=name,init_at:desc"), [(1, Direction::Ascending), (2, Direction::Descending)]);
        assert_eq!(sort(""), [(2, Direction::Ascending)]);
    }

    #[rstest]
    #[case("", 1_000)]
    #[case("limit=0", 0)]
    #[case("limit=7", 7)]
    #[case("limit=100000", 1_000)]
    fn a_page_has_an_upper_bound(#[case] query: &str, #[case] limit: u32) {
        assert_eq!(Query::read(query).limit().unwrap(), limit);
    }

    #[test]
    fn bad_pages_and_keys_are_refused() {
        let query = Query::read("limit=x&marker=abc&global_project=yes&foo=1");
        assert_eq!(message_of(query.limit()), "The value for limit must be an integer: 'x'.");
        assert_eq!(message_of(Query::read("limit=-1").limit()), "Value must be >= 0 for field 'limit'.");
        assert_eq!(message_of(query.marker()), "The value for marker is not a valid UUID: 'abc'.");
        assert_eq!(
            message_of(query.boolean("global_project")),
            "Invalid value 'yes' specified for 'global_project'"
        );
        assert_eq!(message_of(query.only(&PAGING, false)), "Invalid parameter foo");
        assert_eq!(message_of(query.only(&PAGING, true)), "Invalid parameter 'foo'");
    }

    #[test]
    fn booleans_are_read_in_any_case() {
        assert_eq!(Query::read("global_project=False").boolean("global_project").unwrap(), Some(false));
        assert_eq!(Query::read("").boolean("global_project").unwrap(), None);
    }
}
