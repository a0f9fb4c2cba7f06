//! Parsers of flag values.

use std::path::Path;
use std::str::FromStr as _;

use clap::builder::PossibleValuesParser;
use muster_core::cluster::Framework;
use muster_proto::wkt;
use serde_json::{Map, Value};

use crate::failure::{Exit, Failure};

/// Parses a duration; the server checks its bounds.
pub(super) fn parse_lifetime(text: &str) -> Result<wkt::Duration, String> {
    wkt::Duration::from_str(text).map_err(|error| error.to_string())
}

/// Parses a label.
pub(super) fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("'{text}' is not a label: must be KEY=VALUE")),
    }
}

/// Parses `MUSTER_FRAMEWORK`; an empty variable counts as not set, and gives an empty string.
pub(super) fn parse_default_framework(text: &str) -> Result<String, String> {
    match text {
        "" => Ok(String::new()),
        text => match text.parse::<Framework>() {
            Ok(framework) => Ok(framework.to_string()),
            Err(_) => Err(format!("MUSTER_FRAMEWORK is '{text}': must be dask, ray or spark")),
        },
    }
}

/// Returns the parser of `--framework`.
pub(super) fn framework_parser() -> PossibleValuesParser {
    PossibleValuesParser::new(Framework::ALL.iter().map(|framework| framework.as_str()))
}

/// Parses the value of `--profile-properties`: a JSON object, or the path of a file.
pub(super) fn parse_properties(given: &str) -> Result<Map<String, Value>, Failure> {
    let wrong = |why: String| Failure::new(Exit::Usage, format!("--profile-properties: {why}"));
    let parsed = if given.trim_start().starts_with('{') {
        serde_json::from_str(given).map_err(|error| wrong(format!("not a JSON object: {error}")))?
    } else {
        let path = Path::new(given);
        let text = std::fs::read_to_string(path)
            .map_err(|error| wrong(format!("cannot read {}: {error}", path.display())))?;
        // JSON is YAML too.
        serde_saphyr::from_str(&text)
            .map_err(|error| wrong(format!("{} is neither JSON nor YAML: {error}", path.display())))?
    };
    match parsed {
        Value::Object(map) => Ok(map),
        other => Err(wrong(format!("must be an object, not {other}"))),
    }
}
