//! Creation of custom resource definitions.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use http::Request;
use http::header::CONTENT_TYPE;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client};
use tokio::time::timeout;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The longest time for the definitions to be served: a moment, but longer on a machine that compiles.
const PATIENCE: Duration = Duration::from_mins(1);

/// Creates every custom resource definition in a folder, unless it exists, and waits until all are served.
pub(super) async fn make(admin: &Client, folder: &Path) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    let names = try_join_all(paths.iter().map(|path| async move {
        make_one(admin, path).await.with_context(|| format!("cannot make what is in {}", path.display()))
    }));
    let names = names.await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(admin.clone());
    let served =
        names.iter().map(|name| await_condition(definitions.clone(), name, conditions::is_crd_established()));
    timeout(PATIENCE, try_join_all(served))
        .await
        .with_context(|| format!("not all of {} are served after {PATIENCE:?}", names.join(", ")))??;
    Ok(())
}

/// Creates one definition. The file of several megabytes is sent unparsed, because the API server parses it faster.
async fn make_one(admin: &Client, path: &Path) -> Result<String> {
    let text = fs::read_to_string(path)?;
    let name = name_in(&text)?.to_owned();
    let request =
        Request::post(DEFINITIONS).header(CONTENT_TYPE, "application/yaml").body(text.into_bytes())?;
    match admin.request_text(request).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        made => drop(made?),
    }
    Ok(name)
}

/// The name of the one object in a text of YAML.
fn name_in(yaml: &str) -> Result<&str> {
    let objects = yaml.lines().filter(|line| line.starts_with("apiVersion:")).count();
    ensure!(objects == 1, "a file with one object is expected, and it has {objects}");
    let metadata = yaml.lines().skip_while(|line| *line != "metadata:").skip(1);
    let name =
        metadata.take_while(|line| line.starts_with("  ")).find_map(|line| line.strip_prefix("  name: "));
    name.context("its object has no name")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "---\napiVersion: v1\nkind: K\nmetadata:\n  annotations:\n    name: no\n  name: a.ray.io\nspec:\n  name: no\n";

    #[test]
    fn an_object_is_known_by_its_name() {
        assert_eq!(name_in(ONE).unwrap(), "a.ray.io");
    }

    #[test]
    fn a_file_with_two_objects_or_one_without_a_name_is_refused() {
        let refusal = name_in(&ONE.repeat(2)).unwrap_err().to_string();
        assert_eq!(refusal, "a file with one object is expected, and it has 2");
        let nameless = "apiVersion: v1\nmetadata:\n  labels: {}\nspec:\n  name: no\n";
        assert_eq!(name_in(nameless).unwrap_err().to_string(), "its object has no name");
    }
}
