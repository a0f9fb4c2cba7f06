//! Making custom resources known to Kubernetes.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client};
use serde_json::Value;
use tokio::time::timeout;

/// Who writes these objects, as the API server notes it.
pub(super) const MANAGER: &str = "muster-testbed";
/// The API server needs moments, but not on a machine that compiles meanwhile.
const PATIENCE: Duration = Duration::from_mins(1);

/// Applies every custom resource definition in a folder, and waits until they are served.
pub(super) async fn apply(admin: &Client, folder: &Path) -> Result<()> {
    let mut names = Vec::new();
    let definitions: Api<CustomResourceDefinition> = Api::all(admin.clone());
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        for definition in read(&entry?.path())? {
            let name = name_of(&definition)?;
            let apply = PatchParams::apply(MANAGER).force();
            definitions
                .patch(&name, &apply, &Patch::Apply(&definition))
                .await
                .with_context(|| format!("cannot apply {name}"))?;
            names.push(name);
        }
    }
    let served =
        names.iter().map(|name| await_condition(definitions.clone(), name, conditions::is_crd_established()));
    timeout(PATIENCE, try_join_all(served))
        .await
        .with_context(|| format!("not all of {} are served after {PATIENCE:?}", names.join(", ")))??;
    Ok(())
}

/// The objects in a file of YAML.
pub(super) fn read(path: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_saphyr::from_multiple(&text).with_context(|| format!("{} is not YAML", path.display()))
}

pub(super) fn name_of(object: &Value) -> Result<String> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    Ok(name.context("an object without a name")?.to_owned())
}
