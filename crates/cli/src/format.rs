//! Output formats: tables for people, the API's JSON and YAML for programs.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use serde::Serialize;
use serde_json::Value;

use crate::output::{self, message};
use crate::table::{self, Listed};

/// The value of `-o`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// The most important columns
    Table,
    /// All columns
    Wide,
    /// The JSON of the API
    Json,
    /// The same as YAML
    Yaml,
    /// Names only, one per line
    Name,
}

#[derive(Debug, Parser)]
pub(crate) struct FormatFlag {
    /// Output format
    #[arg(short = 'o', long = "output", value_name = "FORMAT", default_value = "table")]
    pub(crate) format: Format,
}

/// Formats a message as indented JSON.
pub(crate) fn json(message: &impl Serialize) -> Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(message)?))
}

/// Formats a message as YAML.
pub(crate) fn yaml(message: &impl Serialize) -> Result<String> {
    Ok(serde_saphyr::to_string(&serde_json::to_value(message)?)?)
}

/// Prints a list, which is a bare array in JSON and YAML.
pub(crate) fn array<T: Listed + Serialize>(format: Format, items: &[T], nothing: &str) -> Result<ExitCode> {
    match format {
        Format::Json => Ok(output::print(&json(&items)?)),
        Format::Yaml => Ok(output::print(&yaml(&items)?)),
        // The other formats show neither key nor message.
        _ => list(format, items, "", &Value::Null, nothing),
    }
}

/// Prints a list; `message` is the API response, which has the items under `key`.
pub(crate) fn list<T: Listed>(
    format: Format,
    items: &[T],
    key: &str,
    message: &impl Serialize,
    nothing: &str,
) -> Result<ExitCode> {
    // An empty array is printed too, as over HTTP.
    let whole = || -> Result<Value> {
        let mut value = serde_json::to_value(message)?;
        if items.is_empty() {
            value[key] = Value::Array(Vec::new());
        }
        Ok(value)
    };
    Ok(output::print(&match format {
        Format::Json => json(&whole()?)?,
        Format::Yaml => yaml(&whole()?)?,
        Format::Name => names(items),
        Format::Table | Format::Wide if items.is_empty() => {
            message!("{nothing}");
            return Ok(ExitCode::SUCCESS);
        }
        Format::Table | Format::Wide => table::render(items, format == Format::Wide),
    }))
}

pub(crate) fn names<T: Listed>(items: &[T]) -> String {
    items.iter().flat_map(|item| [item.called(), "\n"]).collect()
}

/// Prints one object; `text` renders it for people.
pub(crate) fn one<T: Listed + Serialize>(
    format: Format,
    item: &T,
    text: impl FnOnce(bool) -> String,
) -> Result<ExitCode> {
    let items = std::slice::from_ref(item);
    Ok(output::print(&match format {
        Format::Json => json(item)?,
        Format::Yaml => yaml(item)?,
        Format::Name => names(items),
        Format::Wide => text(true),
        Format::Table => text(false),
    }))
}
