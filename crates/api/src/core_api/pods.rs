//! Reads the pod settings of a request: labels, service accounts, volumes, variables.

use std::collections::BTreeMap;
use std::str::FromStr;

use muster_core::quantity::Memory;
use muster_core::recipe::{
    Autoscaler, EnvSource, EnvSourceKind, Mount, PULL_POLICIES, PodRecipe, SERVICE_TYPES, SecurityContext,
    UPSCALING_MODES, Volume,
};
use muster_core::string_enum::alternatives;
use muster_proto::v1alpha2 as wire;
use wire::env_value_from::Source;
use wire::volume::{AccessMode, HostPathType, MountPropagationMode, VolumeType};

use super::create::check_keys;
use super::find::optional;
use crate::error::ApiError;

/// Reads the recipe of the head's pod.
pub(super) fn of_head(given: &wire::HeadGroupSpec) -> Result<PodRecipe, ApiError> {
    let service_type = optional(&given.service_type);
    if let Some(unknown) = service_type.as_ref().filter(|kind| !SERVICE_TYPES.contains(&kind.as_str())) {
        return Err(ApiError::invalid(format!(
            "service_type of head_group_spec is '{unknown}': must be {}",
            alternatives(SERVICE_TYPES)
        )));
    }
    check_pod_keys("head_group_spec", &given.labels, &given.annotations)?;
    Ok(PodRecipe {
        labels: given.labels.clone(),
        annotations: given.annotations.clone(),
        service_account: optional(&given.service_account),
        image_pull_secret: optional(&given.image_pull_secret),
        volumes: mounts(&given.volumes)?,
        start_parameters: given.ray_start_params.clone(),
        service_type,
        image_pull_policy: pull_policy("head_group_spec", &given.image_pull_policy)?,
        security_context: given.security_context.as_ref().map(security_context),
        env_from: sources(&given.environment_from)?,
    })
}

/// Reads the recipe of the pods of a group's workers.
pub(super) fn of_workers(given: &wire::WorkerGroupSpec) -> Result<PodRecipe, ApiError> {
    check_pod_keys(&format!("group '{}'", given.group_name), &given.labels, &given.annotations)?;
    Ok(PodRecipe {
        labels: given.labels.clone(),
        annotations: given.annotations.clone(),
        service_account: optional(&given.service_account),
        image_pull_secret: optional(&given.image_pull_secret),
        volumes: mounts(&given.volumes)?,
        start_parameters: given.ray_start_params.clone(),
        service_type: None,
        image_pull_policy: pull_policy(&format!("group '{}'", given.group_name), &given.image_pull_policy)?,
        security_context: given.security_context.as_ref().map(security_context),
        env_from: sources(&given.environment_from)?,
    })
}

fn check_pod_keys(
    whose: &str,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Result<(), ApiError> {
    check_keys(&format!("label of {whose}"), labels.keys().map(String::as_str))?;
    check_keys(&format!("annotation of {whose}"), annotations.keys().map(String::as_str))
}

/// Reads the autoscaler of a cluster; it can mount only volumes of the head.
pub(super) fn autoscaler(given: &wire::AutoscalerOptions) -> Result<Autoscaler, ApiError> {
    fn amount<T: FromStr>(what: &str, given: &str) -> Result<Option<T>, ApiError> {
        let wrong = |_| {
            ApiError::invalid(format!(
                "{what} for autoscaler is not specified correctly: '{given}' is not a quantity"
            ))
        };
        (!given.is_empty()).then(|| given.parse().map_err(wrong)).transpose()
    }
    let mode = optional(&given.upscaling_mode);
    if let Some(unknown) = mode.as_ref().filter(|mode| !UPSCALING_MODES.contains(&mode.as_str())) {
        return Err(ApiError::invalid(format!(
            "upscaling_mode of autoscaler_options is '{unknown}': must be {}",
            alternatives(UPSCALING_MODES)
        )));
    }
    let idle = u32::try_from(given.idle_timeout_seconds).map_err(|_| {
        ApiError::invalid(format!(
            "idle_timeout_seconds of autoscaler_options is {}: must be 0 or greater",
            given.idle_timeout_seconds
        ))
    })?;
    let whole = |from: &wire::EnvValueFrom| {
        let kind = source_kind(from);
        if !matches!(kind, EnvSourceKind::ConfigMap | EnvSourceKind::Secret) || from.name.is_empty() {
            return Err(ApiError::invalid(
                "environment_from of autoscaler_options takes ConfigMaps and Secrets, by name",
            ));
        }
        Ok(EnvSource { kind, name: from.name.clone(), key: String::new() })
    };
    Ok(Autoscaler {
        idle_timeout_seconds: (idle > 0).then_some(idle),
        upscaling_mode: mode,
        image: optional(&given.image),
        image_pull_policy: pull_policy("autoscaler_options", &given.image_pull_policy)?,
        cpu: amount("cpu", &given.cpu)?,
        memory: amount("memory", &given.memory)?,
        env: given.environment.clone(),
        env_from: given.environment_from.iter().map(whole).collect::<Result<_, _>>()?,
        volumes: mounts(&given.volumes)?,
    })
}

fn pull_policy(whose: &str, given: &str) -> Result<Option<String>, ApiError> {
    let policy = optional(given);
    match policy.as_ref().filter(|policy| !PULL_POLICIES.contains(&policy.as_str())) {
        None => Ok(policy),
        Some(unknown) => Err(ApiError::invalid(format!(
            "image_pull_policy of {whose} is '{unknown}': must be {}",
            alternatives(PULL_POLICIES)
        ))),
    }
}

fn security_context(given: &wire::SecurityContext) -> SecurityContext {
    let wire::SecurityContext { add_capabilities, drop_capabilities, privileged } = given.clone();
    SecurityContext { privileged, add: add_capabilities, drop: drop_capabilities }
}

/// Reads environment variables whose values come from other objects.
pub(super) fn sources(
    given: &BTreeMap<String, wire::EnvValueFrom>,
) -> Result<BTreeMap<String, EnvSource>, ApiError> {
    let source = |(variable, from): (&String, &wire::EnvValueFrom)| {
        let (kind, name, key) = (source_kind(from), from.name.clone(), from.key.clone());
        let needs_name = matches!(kind, EnvSourceKind::ConfigMap | EnvSourceKind::Secret);
        if variable.is_empty() || variable.contains('=') {
            return Err(ApiError::invalid(format!(
                "environment variable is {variable:?}: must be a name without '='"
            )));
        }
        if key.is_empty() || (needs_name && name.is_empty()) {
            let what = if needs_name { "the name of an object and a key" } else { "a key" };
            return Err(ApiError::invalid(format!("environment variable '{variable}' needs {what}")));
        }
        Ok((variable.clone(), EnvSource { kind, name, key }))
    };
    given.iter().map(source).collect()
}

fn source_kind(from: &wire::EnvValueFrom) -> EnvSourceKind {
    match from.source() {
        Source::Configmap => EnvSourceKind::ConfigMap,
        Source::Secret => EnvSourceKind::Secret,
        Source::Resourcefield => EnvSourceKind::Resource,
        Source::Field => EnvSourceKind::Field,
    }
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
        assert!(error.contains("'Ingress': must be ClusterIP, NodePort or LoadBalancer"), "{error}");
    }
}
