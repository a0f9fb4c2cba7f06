//! Reads the values of a set, and the explicit values of a request.

use std::collections::BTreeMap;

use super::{ConfigFault, ConfigValues, ConfiguredShape, InvalidConfig, InvalidFlag};
use crate::cluster::Framework;
use crate::recipe::Metrics;
use crate::shape::Shape;

impl ConfigValues {
    /// Reads a set. An unknown key is refused, because it would silently have no effect.
    pub fn of_set(set: &str, data: &BTreeMap<String, String>) -> Result<Self, InvalidConfig> {
        let mut values = Self::default();
        for (key, value) in data {
            values.read(set, key.trim_matches('\n'), value.trim_matches('\n'))?;
        }
        Ok(values)
    }

    fn read(&mut self, set: &str, key: &str, value: &str) -> Result<(), ConfigFault> {
        let text = Some(value.to_owned());
        match key {
            "mastercount" => self.masters = count(set, "mastercount", value)?.or(self.masters),
            "workercount" => self.workers = count(set, "workercount", value)?.or(self.workers),
            "sparkmasterconfig" => self.spark.master_config = text,
            "sparkworkerconfig" => self.spark.worker_config = text,
            "sparkimage" => self.spark_image = text,
            "image" => self.image = text,
            "exposeui" => {
                let read = go_bool(value).ok_or_else(|| ConfigFault::BadExposeUi(value.to_owned()))?;
                self.spark.expose_ui = Some(read);
            }
            "metrics" if value.is_empty() => {}
            "metrics" => {
                let bad = || ConfigFault::BadMetrics { set: set.to_owned(), value: value.to_owned() };
                self.spark.metrics = Some(metrics(value).ok_or_else(bad)?);
            }
            "framework" => self.framework = Some(framework(set, value)?),
            "shape" => self.shape = Some(shape(set, value)?),
            key => return Err(ConfigFault::UnknownKey { set: set.to_owned(), key: key.to_owned() }),
        }
        Ok(())
    }
}

/// Reads an explicit `exposeui`; none if it is empty.
pub fn expose_ui_flag(given: &str) -> Result<Option<bool>, InvalidFlag> {
    if given.is_empty() { Ok(None) } else { go_bool(given).map(Some).ok_or(InvalidFlag::ExposeUi) }
}

/// Reads an explicit `metrics`; none if it is empty.
pub fn metrics_flag(given: &str) -> Result<Option<Metrics>, InvalidFlag> {
    if given.is_empty() { Ok(None) } else { metrics(given).map(Some).ok_or(InvalidFlag::Metrics) }
}

/// Reads a number of nodes; none if it is negative, which counts as not given.
fn count(set: &str, key: &'static str, value: &str) -> Result<Option<i64>, ConfigFault> {
    let not_an_integer = |_| ConfigFault::NotAnInteger { set: set.to_owned(), key, value: value.to_owned() };
    let count: i64 = value.parse().map_err(not_an_integer)?;
    Ok((count >= 0).then_some(count))
}

/// Reads a boolean in the spellings of Go's `strconv.ParseBool`, which existing sets use.
fn go_bool(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn metrics(value: &str) -> Option<Metrics> {
    match go_bool(value) {
        Some(true) => Some(Metrics::On),
        Some(false) => Some(Metrics::Off),
        None => value.parse().ok(),
    }
}

fn framework(set: &str, value: &str) -> Result<Framework, ConfigFault> {
    let expected = || Framework::ALL.iter().map(|known| known.as_str()).collect::<Vec<_>>().join(", ");
    value.parse().map_err(|_| ConfigFault::BadFramework {
        set: set.to_owned(),
        expected: expected(),
        value: value.to_owned(),
    })
}

fn shape(set: &str, value: &str) -> Result<ConfiguredShape, ConfigFault> {
    let bad = |why: String| ConfigFault::BadShape { set: set.to_owned(), value: value.to_owned(), why };
    if value.is_empty() {
        return Err(bad("the value is empty".to_owned()));
    }
    if !value.contains('=') {
        return Ok(ConfiguredShape::Named(value.to_owned()));
    }
    let mut shape = Shape::default();
    for pair in value.split(',') {
        let (key, amount) = pair.split_once('=').unwrap_or((pair, ""));
        match key {
            "cpu" => shape.cpu = Some(amount.parse().map_err(|error| bad(format!("{error}")))?),
            "memory" => shape.memory = Some(amount.parse().map_err(|error| bad(format!("{error}")))?),
            "gpu" => shape.gpu = Some(amount.parse().map_err(|error| bad(format!("{error}")))?),
            _ => return Err(bad(format!("'{pair}' is not an amount"))),
        }
    }
    shape.check().map_err(|error| bad(error.to_string()))?;
    Ok(ConfiguredShape::Amounts(Box::new(shape)))
}
