//! The manifests of operators: custom resource definitions, and webhooks that check custom resources.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::Inventory;

/// The folder of custom resource definitions in a kubebuilder module, and in a part.
const CUSTOM_RESOURCES: (&str, &str) = ("config/crd/bases", "crds");
/// The file of webhook configurations in a kubebuilder module, and in a part.
const WEBHOOKS: (&str, &str) = ("config/webhook/manifests.yaml", "webhooks.yaml");

/// The folder of custom resource definitions in the package of the Dask operator. Those in its `customresources` refer
/// to each other, which no API server accepts.
const OF_DASK: &str = "dask_kubernetes/operator/deployment/helm/dask-kubernetes-operator/crds";

/// Copies the manifests of a Go module into its part, because Go and the module cache may be gone when they are needed.
pub(super) fn copy(module: &Path, part: &Path) -> Result<()> {
    let (source, target) = (module.join(CUSTOM_RESOURCES.0), part.join(CUSTOM_RESOURCES.1));
    if source.is_dir() {
        fs::create_dir_all(&target)?;
        for entry in fs::read_dir(&source)? {
            let entry = entry?;
            copy_file(&entry.path(), &target.join(entry.file_name()))?;
        }
    }
    let (source, target) = (module.join(WEBHOOKS.0), part.join(WEBHOOKS.1));
    if source.is_file() { copy_file(&source, &target) } else { Ok(()) }
}

fn copy_file(source: &Path, target: &Path) -> Result<()> {
    fs::copy(source, target).with_context(|| format!("cannot copy {}", source.display()))?;
    Ok(())
}

/// Records the manifests of the operator `name`.
pub(super) fn note(name: &str, part: &Path, inventory: &mut Inventory) {
    let there = |file: &str| Some(part.join(file)).filter(|path| path.exists());
    inventory.crds.extend(there(CUSTOM_RESOURCES.1).map(|path| (name.to_owned(), path)));
    inventory.webhooks.extend(there(WEBHOOKS.1).map(|path| (name.to_owned(), path)));
}

/// The custom resource definitions of the Dask operator, if it is installed in this Python environment.
pub(super) fn of_dask(environment: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(environment.join("lib")).ok()?.flatten();
    versions.map(|python| python.path().join("site-packages").join(OF_DASK)).find(|path| path.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "kind: Something").unwrap();
    }

    #[test]
    fn an_operators_part_has_the_custom_resources_and_webhooks_of_its_module() {
        let temp = tempfile::tempdir().unwrap();
        let (module, part) = (temp.path().join("module"), temp.path().join("part"));
        write(&module.join("config/crd/bases/ray.io_rayclusters.yaml"));
        write(&module.join("config/webhook/manifests.yaml"));
        fs::create_dir(&part).unwrap();
        copy(&module, &part).unwrap();
        let mut inventory = Inventory::default();
        note("kuberay", &part, &mut inventory);
        assert!(inventory.crds["kuberay"].join("ray.io_rayclusters.yaml").exists());
        assert!(inventory.webhooks["kuberay"].is_file());
    }

    #[test]
    fn a_part_of_something_else_has_none() {
        let temp = tempfile::tempdir().unwrap();
        copy(temp.path(), temp.path()).unwrap();
        let mut inventory = Inventory::default();
        note("helm", temp.path(), &mut inventory);
        assert!(inventory.crds.is_empty() && inventory.webhooks.is_empty());
        assert_eq!(of_dask(temp.path()), None);
    }

    #[test]
    fn those_of_the_dask_operator_are_in_its_package() {
        let temp = tempfile::tempdir().unwrap();
        let crds = temp.path().join("lib/python3.11/site-packages").join(OF_DASK);
        write(&crds.join("daskcluster.yaml"));
        assert_eq!(of_dask(temp.path()), Some(crds));
    }
}
