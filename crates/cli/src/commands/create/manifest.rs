//! `muster create -f`: reads a cluster in the format of `muster get NAME -o yaml`. Output-only fields are ignored.

use std::io::Read as _;

use muster_proto::names;
use muster_proto::v1alpha2::{Cluster, ClusterConfig, CreateClusterRequest};
use serde_json::Value;

use super::python;
use crate::connect::Client;
use crate::failure::{Exit, Failure};

/// The file name for standard input.
const STDIN: &str = "-";

/// Reads a cluster from a file, or from standard input.
pub(super) fn read(file: &str) -> Result<Cluster, Failure> {
    let shown = if file == STDIN { "standard input" } else { file };
    let text = if file == STDIN {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.map_err(|error| Failure::new(Exit::Usage, format!("cannot read {shown}: {error}")))?;
    parse(&text)
        .map_err(|why| Failure::new(Exit::Usage, format!("{shown} does not describe a cluster: {why}")))
}

/// Builds the request for a cluster from a file. Missing values get the defaults of the flags; a file with worker
/// groups has their numbers of workers.
pub(super) fn request(name: String, given: Cluster, default_framework: &str) -> CreateClusterRequest {
    let is_of_framework = given.profile.is_empty();
    let is_complete = given.cluster_spec.is_some();
    let config = (is_of_framework && !is_complete).then(|| ClusterConfig {
        default_framework: default_framework.to_owned(),
        ..ClusterConfig::default()
    });
    let mut cluster = Cluster { name, namespace: String::new(), ..given };
    if is_of_framework && cluster.framework.is_empty() {
        default_framework.clone_into(&mut cluster.framework);
    }
    CreateClusterRequest { cluster: Some(cluster), config, ..CreateClusterRequest::default() }
}

/// Gives nodes without an image the caller's Python, as the flags do.
pub(super) async fn with_callers_python(
    client: &Client,
    mut request: CreateClusterRequest,
) -> Result<CreateClusterRequest, Failure> {
    let Some(cluster) = request.cluster.as_mut().filter(|cluster| !cluster.framework.is_empty()) else {
        return Ok(request);
    };
    if let Some(python) = python::resolve(client, &cluster.provider, &cluster.framework, None).await? {
        match &mut request.config {
            Some(config) => config.default_image = python,
            None => fill_images(cluster, &python),
        }
    }
    Ok(request)
}

/// Sets the image of the nodes that have none. Properties of the profile may have one too: they stay as they are.
fn fill_images(cluster: &mut Cluster, image: &str) {
    if cluster.profile_properties.is_some() {
        return;
    }
    let spec = cluster.cluster_spec.get_or_insert_default();
    let head = spec.head_group_spec.get_or_insert_default();
    let groups = spec.worker_group_spec.iter_mut().map(|group| (&mut group.image, &group.image_template));
    for (own, template) in groups.chain([(&mut head.image, &head.image_template)]) {
        if own.is_empty() && template.is_empty() {
            image.clone_into(own);
        }
    }
}

/// Parses a cluster from YAML or JSON, which is YAML too.
fn parse(text: &str) -> Result<Cluster, String> {
    let value: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    if value.is_array() {
        return Err("must be an object, not a list: `muster get NAME -o yaml` prints one cluster".to_owned());
    }
    let Some(members) = value.as_object() else {
        return Err("must be an object with fields such as name and framework".to_owned());
    };
    names::check_message("muster.v1alpha2.Cluster", members).map_err(|error| error.to_string())?;
    let cluster: Cluster = serde_json::from_value(value).map_err(|error| error.to_string())?;
    Ok(input_fields(cluster))
}

/// Keeps only the fields that a creation accepts.
fn input_fields(cluster: Cluster) -> Cluster {
    let Cluster {
        name,
        namespace,
        version,
        environment,
        cluster_spec,
        envs,
        profile,
        profile_properties,
        framework,
        provider,
        flavor,
        idle_timeout,
        max_lifetime,
        app,
        ephemeral,
        labels,
        annotations,
        timeout,
        envs_from,
        working_dir,
        ..
    } = cluster;
    // The output has a profile type for clusters of a framework too; requests accept only one of the two.
    let profile = if framework.is_empty() { profile } else { String::new() };
    Cluster {
        name,
        namespace,
        version,
        environment,
        cluster_spec,
        envs,
        profile,
        profile_properties,
        framework,
        provider,
        flavor,
        idle_timeout,
        max_lifetime,
        app,
        ephemeral,
        labels,
        annotations,
        timeout,
        envs_from,
        working_dir,
        ..Cluster::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_fields_are_ignored() {
        let text = "name: fred\nframework: dask\nprofile: dask.cluster-1.0\nid: x\nstate: ACTIVE\nuser: '0'\n\
                    labels: {team: x}\nidleTimeout: 60s\nclusterSpec:\n  workerGroupSpec:\n  - groupName: default\n    replicas: 2\n";
        let cluster = parse(text).unwrap();
        assert_eq!(
            (cluster.name.as_str(), cluster.framework.as_str(), cluster.profile.as_str()),
            ("fred", "dask", "")
        );
        assert_eq!((cluster.id.as_str(), cluster.state.as_str(), cluster.user.as_str()), ("", "", ""));
        assert_eq!(cluster.labels["team"], "x");
        assert_eq!(cluster.cluster_spec.unwrap().worker_group_spec[0].replicas, 2);
    }

    #[test]
    fn missing_values_have_the_defaults_of_flags() {
        let short = request("fred".to_owned(), parse("labels: {team: x}").unwrap(), "dask");
        assert_eq!((short.cluster.unwrap().framework.as_str(), short.config.is_some()), ("dask", true));
        let text = "framework: ray\nclusterSpec: {workerGroupSpec: [{groupName: a}]}";
        let full = request("fred".to_owned(), parse(text).unwrap(), "dask");
        assert_eq!((full.cluster.unwrap().framework.as_str(), full.config), ("ray", None));
    }

    #[test]
    fn nodes_without_an_image_get_the_callers_python() {
        let text = "framework: dask\nclusterSpec: {workerGroupSpec: [{groupName: a}, {groupName: b, image: own}, \
                    {groupName: c, imageTemplate: t}]}";
        let mut cluster = parse(text).unwrap();
        fill_images(&mut cluster, "/venv/bin/python");
        let spec = cluster.cluster_spec.unwrap();
        assert_eq!(spec.head_group_spec.unwrap().image, "/venv/bin/python");
        let images: Vec<&str> = spec.worker_group_spec.iter().map(|group| group.image.as_str()).collect();
        assert_eq!(images, ["/venv/bin/python", "own", ""]);
    }

    #[test]
    fn a_file_without_a_cluster_is_refused_with_the_reason() {
        assert!(parse("1\n").unwrap_err().contains("must be an object"));
        let list = parse("- name: fred\n").unwrap_err();
        assert!(list.contains("not a list: `muster get NAME -o yaml` prints one cluster"), "{list}");
        assert!(parse("name: fred\nworkrs: 2\n").unwrap_err().contains("workrs"));
    }
}
