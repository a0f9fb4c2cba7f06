//! How results are printed: tables for people, JSON and YAML of the wire for programs.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use serde::Serialize;
use serde_json::Value;

use crate::output::{self, say};
use crate::table::{self, Listed};

/// How a result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// What matters most, in columns
    Table,
    /// A table with everything worth a column
    Wide,
    /// The JSON of the API
    Json,
    /// The same as YAML
    Yaml,
    /// Only names, one a line
    Name,
}

#[derive(Debug, Parser)]
pub(crate) struct FormatFlag {
    /// How to print the result
    #[arg(short = 'o', long = "output", value_name = "FORMAT", default_value = "table")]
    pub(crate) format: Format,
}

/// JSON as people read it.
pub(crate) fn json(message: &impl Serialize) -> Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(message)?))
}

/// The same as YAML.
pub(crate) fn yaml(message: &impl Serialize) -> Result<String> {
    Ok(serde_saphyr::to_string(&serde_json::to_value(message)?)?)
}

/// Shows a list: as JSON and YAML an array.
pub(crate) fn array<T: Listed + Serialize>(format: Format, items: &[T], nothing: &str) -> Result<ExitCode> {
    match format {
        Format::Json => Ok(output::print(&json(&items)?)),
        Format::Yaml => Ok(output::print(&yaml(&items)?)),
        // Neither a key nor a message is shown in the other formats.
        _ => list(format, items, "", &Value::Null, nothing),
    }
}

/// Prints a list; `message` is the answer of the wire, which has the items under `key`.
pub(crate) fn list<T: Listed>(
    format: Format,
    items: &[T],
    key: &str,
    message: &impl Serialize,
    nothing: &str,
) -> Result<ExitCode> {
    // The array is there even if it is empty, as it is over HTTP.
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
            say!("{nothing}");
            return Ok(ExitCode::SUCCESS);
        }
        Format::Table | Format::Wide => table::render(items, format == Format::Wide),
    }))
}

pub(crate) fn names<T: Listed>(items: &[T]) -> String {
    items.iter().flat_map(|item| [item.called(), "\n"]).collect()
}

/// Prints one thing; `text` is how people read it.
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
