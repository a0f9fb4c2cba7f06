//! Configuration sets, read from TOML files in the data folder.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use muster_core::config_set::is_possible_name;
use muster_engine::ports::provider::{ConfigSetProvider, INVALID, ProviderError};
use toml::{Table, Value};

/// Largest file that is read. A set has a dozen short lines, so a larger file is a mistake.
const MAX_BYTES: u64 = 64 << 10;

/// The configuration sets of a folder, one file each. They are the same in every namespace, since local namespaces are
/// only names.
pub(crate) struct ConfigFolder {
    folder: PathBuf,
}

impl ConfigFolder {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }
}

#[async_trait]
impl ConfigSetProvider for ConfigFolder {
    async fn read(&self, _: &str, name: &str) -> Result<Option<BTreeMap<String, String>>, ProviderError> {
        // Other names could lead out of the folder.
        if !is_possible_name(name) {
            return Ok(None);
        }
        let file = self.folder.join(format!("{name}.toml"));
        match tokio::fs::metadata(&file).await {
            Ok(found) if found.len() > MAX_BYTES => {
                return Err(unusable(&file, &format!("it has more than {MAX_BYTES} bytes")));
            }
            _ => {}
        }
        match tokio::fs::read_to_string(&file).await {
            Ok(text) => parse(&text).map(Some).map_err(|why| unusable(&file, &why)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == ErrorKind::InvalidData => Err(unusable(&file, &error)),
            Err(error) => {
                let message = format!("cannot read {}: {error}", file.display());
                Err(ProviderError::transient("LocalDisk", message))
            }
        }
    }
}

fn unusable(file: &Path, why: &dyn std::fmt::Display) -> ProviderError {
    ProviderError::permanent(INVALID, format!("{} cannot be used: {why}", file.display()))
}

/// Parses a set. Values become strings, as in a `ConfigMap`.
fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let text = |(key, value)| match value {
        Value::String(text) => Ok((key, text)),
        Value::Integer(number) => Ok((key, number.to_string())),
        Value::Boolean(flag) => Ok((key, flag.to_string())),
        other => {
            Err(format!("'{key}' is of type {}: must be a string, an integer or a boolean", other.type_str()))
        }
    };
    table.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    async fn read(name: &str, content: &str) -> Result<Option<BTreeMap<String, String>>, ProviderError> {
        let data = tempfile::tempdir().unwrap();
        let folder = data.path().join("configs");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("big.toml"), content).unwrap();
        std::fs::write(data.path().join("secret.toml"), "workercount = 1").unwrap();
        ConfigFolder::new(folder).read("demo", name).await
    }

    #[tokio::test]
    async fn values_of_a_file_become_strings() {
        let content = "framework = \"dask\"\nworkercount = 3\nmetrics = true\n";
        let set = read("big", content).await.unwrap().unwrap();
        let expected = [("framework", "dask"), ("metrics", "true"), ("workercount", "3")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(set, BTreeMap::from(expected));
    }

    #[rstest]
    #[case::other("small")]
    #[case::outside("../secret")]
    #[case::folder("..")]
    #[case::empty("")]
    #[tokio::test]
    async fn names_that_lead_out_of_the_folder_find_no_set(#[case] name: &str) {
        assert_eq!(read(name, "workercount = 3").await, Ok(None));
    }

    #[rstest]
    #[case::no_toml("workercount", "TOML parse error")]
    #[case::table("[workercount]\na = 1", "'workercount' is of type table: must be a string")]
    #[case::fraction("workercount = 1.5", "'workercount' is of type float")]
    #[tokio::test]
    async fn a_file_that_is_not_a_set_is_refused(#[case] content: &str, #[case] why: &str) {
        let error = read("big", content).await.unwrap_err();
        assert_eq!((error.reason.as_str(), error.transient), (INVALID, false));
        assert!(
            error.message.contains("big.toml cannot be used: ") && error.message.contains(why),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_file_that_is_too_large_is_refused() {
        let content = format!("image = \"{}\"", "x".repeat(70_000));
        let error = read("big", &content).await.unwrap_err();
        assert!(error.message.contains("more than 65536 bytes"), "{error}");
    }
}
