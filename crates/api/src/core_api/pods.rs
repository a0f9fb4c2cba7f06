//! Pod settings of a request: labels, accounts, volumes.

use std::collections::BTreeMap;

use muster_core::quantity::Memory;
use muster_core::recipe::{Mount, PodRecipe, SERVICE_TYPES, Volume};
use muster_proto::v1alpha2 as wire;
use wire::volume::{AccessMode, HostPathType, MountPropagationMode, VolumeType};

use super::find::optional;
use crate::error::ApiError;

/// The recipe of the head's pod.
pub(super) fn of_head(given: &wire::HeadGroupSpec) -> Result<PodRecipe, ApiError> {
    let service_type = optional(&given.service_type);
    if let Some(unknown) = service_type.as_ref().filter(|kind| !SERVICE_TYPES.contains(&kind.as_str())) {
        return Err(ApiError::invalid(format!(
            "service_type of head_group_spec is '{unknown}': {} is possible",
            SERVICE_TYPES.join(", ")
        )));
    }
    Ok(PodRecipe {
        labels: given.labels.clone(),
        annotations: given.annotations.clone(),
        service_account: optional(&given.service_account),
        image_pull_secret: optional(&given.image_pull_secret),
        volumes: mounts(&given.volumes)?,
        start_parameters: given.ray_start_params.clone(),
        service_type,
    })
}

/// The recipe of the pods of a group's workers.
pub(super) fn of_workers(given: &wire::WorkerGroupSpec) -> Result<PodRecipe, ApiError> {
    Ok(PodRecipe {
        labels: given.labels.clone(),
        annotations: given.annotations.clone(),
        service_account: optional(&given.service_account),
        image_pull_secret: optional(&given.image_pull_secret),
        volumes: mounts(&given.volumes)?,
        start_parameters: given.ray_start_params.clone(),
        service_type: None,
    })
}

fn mounts(given: &[wire::Volume]) -> Result<Vec<Mount>, ApiError> {
    given.iter().map(mount).collect()
}

fn mount(given: &wire::Volume) -> Result<Mount, ApiError> {
    let name = &given.name;
    if name.is_empty() || given.mount_path.is_empty() {
        return Err(ApiError::invalid("a volume needs a name and a mount_path"));
    }
    let propagation = match given.mount_propagation_mode() {
        MountPropagationMode::None => None,
        MountPropagationMode::Hosttocontainer => Some("HostToContainer".to_owned()),
        MountPropagationMode::Bidirectional => Some("Bidirectional".to_owned()),
    };
    let source = || match given.source.as_str() {
        "" => Err(ApiError::invalid(format!("source of volume '{name}' is empty: name what it is made of"))),
        source => Ok(source.to_owned()),
    };
    let items: BTreeMap<String, String> = given.items.clone();
    let of = match given.volume_type() {
        VolumeType::PersistentVolumeClaim => Volume::Claim(source()?),
        VolumeType::HostPath => {
            Volume::HostPath { path: source()?, file: given.host_path_type() == HostPathType::File }
        }
        VolumeType::Configmap => Volume::ConfigMap { name: source()?, items },
        VolumeType::Secret => Volume::Secret { name: source()?, items },
        VolumeType::EmptyDir => Volume::EmptyDir { limit: size("empty dir", given)? },
        VolumeType::Ephemeral => Volume::Ephemeral {
            storage: size("ephemeral", given)?
                .ok_or_else(|| ApiError::invalid("storage for ephemeral volume is empty"))?,
            class: optional(&given.storage_class_name),
            access: access(given.access_mode()).to_owned(),
        },
    };
    let (path, read_only) = (given.mount_path.clone(), given.read_only);
    Ok(Mount { name: name.clone(), path, read_only, propagation, of })
}

fn size(what: &str, given: &wire::Volume) -> Result<Option<String>, ApiError> {
    let Some(size) = optional(&given.storage) else { return Ok(None) };
    match size.parse::<Memory>() {
        Ok(_) => Ok(Some(size)),
        Err(why) => Err(ApiError::invalid(format!(
            "storage for {what} volume is not specified correctly: '{size}' of volume '{}': {why}",
            given.name
        ))),
    }
}

const fn access(mode: AccessMode) -> &'static str {
    match mode {
        AccessMode::Rwo => "ReadWriteOnce",
        AccessMode::Rox => "ReadOnlyMany",
        AccessMode::Rwx => "ReadWriteMany",
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn volume(kind: VolumeType, storage: &str) -> wire::Volume {
        wire::Volume {
            name: "v".to_owned(),
            mount_path: "/mnt".to_owned(),
            volume_type: kind.into(),
            source: "thing".to_owned(),
            storage: storage.to_owned(),
            ..wire::Volume::default()
        }
    }

    #[rstest]
    #[case::claim(VolumeType::PersistentVolumeClaim, "", Volume::Claim("thing".into()))]
    #[case::path(VolumeType::HostPath, "", Volume::HostPath { path: "thing".into(), file: false })]
    #[case::secret(VolumeType::Secret, "", Volume::Secret { name: "thing".into(), items: BTreeMap::new() })]
    #[case::empty(VolumeType::EmptyDir, "", Volume::EmptyDir { limit: None })]
    #[case::empty_of_a_size(VolumeType::EmptyDir, "1Gi", Volume::EmptyDir { limit: Some("1Gi".into()) })]
    fn a_volume_is_what_its_type_says(#[case] kind: VolumeType, #[case] storage: &str, #[case] of: Volume) {
        assert_eq!(mount(&volume(kind, storage)).unwrap().of, of);
    }

    #[rstest]
    #[case::without_size(volume(VolumeType::Ephemeral, ""), "storage for ephemeral volume is empty")]
    #[case::bad_size(
        volume(VolumeType::Ephemeral, "much"),
        "storage for ephemeral volume is not specified correctly"
    )]
    #[case::bad_limit(
        volume(VolumeType::EmptyDir, "much"),
        "storage for empty dir volume is not specified correctly"
    )]
    #[case::nothing(wire::Volume { source: String::new(), ..volume(VolumeType::Secret, "") }, "source of volume 'v' is empty")]
    #[case::no_name(wire::Volume::default(), "a volume needs a name and a mount_path")]
    fn a_volume_that_cannot_be_is_refused(#[case] given: wire::Volume, #[case] why: &str) {
        let error = mount(&given).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }

    #[test]
    fn a_service_is_of_a_type_that_there_is() {
        let head =
            wire::HeadGroupSpec { service_type: "Ingress".to_owned(), ..wire::HeadGroupSpec::default() };
        let error = of_head(&head).unwrap_err().to_string();
        assert!(error.contains("'Ingress': ClusterIP, NodePort, LoadBalancer is possible"), "{error}");
    }
}
