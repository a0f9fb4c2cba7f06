//! Validates requests of KubeRay clients, in the order and with the messages of the KubeRay API server.

use muster_proto::v1::{Cluster, CreateClusterRequest, HeadGroupSpec, WorkerGroupSpec};

use crate::error::ApiError;

/// Refuses a request without a namespace.
pub(super) fn namespace(given: &str) -> Result<(), ApiError> {
    if given.is_empty() {
        return Err(ApiError::invalid("Namespace is empty. Please specify a valid value."));
    }
    Ok(())
}

/// Refuses a request without the name or namespace of a cluster.
pub(super) fn named(name: &str, namespace: &str) -> Result<(), ApiError> {
    if name.is_empty() {
        return Err(ApiError::invalid("Cluster name is empty. Please specify a valid value."));
    }
    self::namespace(namespace)
}

/// Validates a create request. Names, sizes and quantities are validated later, as in every other API.
pub(super) fn create(request: &CreateClusterRequest) -> Result<(), ApiError> {
    namespace(&request.namespace)?;
    let none = Cluster::default();
    let cluster = request.cluster.as_ref().unwrap_or(&none);
    if cluster.namespace != request.namespace {
        return Err(ApiError::invalid(
            "The namespace in the request is different from the namespace in the cluster definition.",
        ));
    }
    if cluster.name.is_empty() {
        return Err(ApiError::invalid("Cluster name is empty. Please specify a valid value."));
    }
    if cluster.user.is_empty() {
        return Err(ApiError::invalid("User who create the cluster is empty. Please specify a valid value."));
    }
    let Some(spec) = &cluster.cluster_spec else {
        return Err(ApiError::invalid("A ClusterSpec object is required. Please specify one."));
    };
    let Some(head) = &spec.head_group_spec else {
        return Err(ApiError::invalid(
            "Cluster Spec Object requires HeadGroupSpec to be populated. Please specify one.",
        ));
    };
    self::head(head)?;
    spec.worker_group_spec.iter().enumerate().try_for_each(|(place, group)| workers(place, group))
}

fn head(head: &HeadGroupSpec) -> Result<(), ApiError> {
    if head.compute_template.is_empty() {
        return Err(ApiError::invalid(
            "HeadGroupSpec compute template is empty. Please specify a valid value.",
        ));
    }
    if head.ray_start_params.is_empty() {
        return Err(ApiError::invalid("HeadGroupSpec RayStartParams is empty. Please specify values."));
    }
    if !is_pull_policy(&head.image_pull_policy) {
        return Err(ApiError::invalid(
            "HeadGroupSpec unsupported value for Image pull policy. Please specify Always or IfNotPresent",
        ));
    }
    Ok(())
}

fn workers(place: usize, group: &WorkerGroupSpec) -> Result<(), ApiError> {
    let what = if group.group_name.is_empty() {
        "group name is empty"
    } else if group.compute_template.is_empty() {
        "compute template is empty"
    } else if group.max_replicas == 0 {
        "MaxReplicas can not be 0"
    } else if group.min_replicas > group.max_replicas {
        "MinReplica > MaxReplicas"
    } else if !is_pull_policy(&group.image_pull_policy) {
        return Err(ApiError::invalid(
            "Worker GroupSpec unsupported value for Image pull policy. Please specify Always or IfNotPresent",
        ));
    } else {
        return Ok(());
    };
    Err(ApiError::invalid(format!("WorkerNodeSpec {place} {what}. Please specify a valid value.")))
}

/// Adds the prefix of the KubeRay API server to the message about an invalid quantity.
pub(super) fn explain_quantity(error: ApiError) -> ApiError {
    const QUANTITIES: [&str; 3] = ["storage for ", "cpu for autoscaler", "memory for autoscaler"];
    if !QUANTITIES.iter().any(|quantity| error.message.starts_with(quantity)) {
        return error;
    }
    ApiError { message: format!("Failed to create a Ray cluster: {}", error.message), ..error }
}

fn is_pull_policy(given: &str) -> bool {
    ["", "Always", "IfNotPresent"].contains(&given)
}

#[cfg(test)]
mod tests {
    use muster_proto::v1::ClusterSpec;
    use rstest::rstest;

    use super::*;

    fn request() -> CreateClusterRequest {
        let head = HeadGroupSpec {
            compute_template: "t".to_owned(),
            ray_start_params: [("a".to_owned(), "b".to_owned())].into(),
            ..HeadGroupSpec::default()
        };
        let group = WorkerGroupSpec {
            group_name: "g".to_owned(),
            compute_template: "t".to_owned(),
            max_replicas: 1,
            ..WorkerGroupSpec::default()
        };
        let spec = ClusterSpec {
            head_group_spec: Some(head),
            worker_group_spec: vec![group],
            ..ClusterSpec::default()
        };
        let cluster = Cluster {
            name: "c".to_owned(),
            namespace: "n".to_owned(),
            user: "u".to_owned(),
            cluster_spec: Some(spec),
            ..Cluster::default()
        };
        CreateClusterRequest { cluster: Some(cluster), namespace: "n".to_owned() }
    }

    fn head_of(request: &mut CreateClusterRequest) -> &mut HeadGroupSpec {
        let spec = request.cluster.as_mut().and_then(|cluster| cluster.cluster_spec.as_mut());
        spec.and_then(|spec| spec.head_group_spec.as_mut()).expect("a head")
    }

    fn group_of(request: &mut CreateClusterRequest) -> &mut WorkerGroupSpec {
        let spec = request.cluster.as_mut().and_then(|cluster| cluster.cluster_spec.as_mut());
        spec.and_then(|spec| spec.worker_group_spec.first_mut()).expect("a group")
    }

    #[test]
    fn a_whole_request_passes() {
        assert_eq!(create(&request()), Ok(()));
    }

    #[rstest]
    #[case::namespace(|r: &mut CreateClusterRequest| r.namespace.clear(), "Namespace is empty")]
    #[case::nothing(|r: &mut CreateClusterRequest| r.cluster = None, "The namespace in the request is different")]
    #[case::name(|r: &mut CreateClusterRequest| r.cluster.as_mut().unwrap().name.clear(), "Cluster name is empty")]
    #[case::user(|r: &mut CreateClusterRequest| r.cluster.as_mut().unwrap().user.clear(), "User who create the cluster is empty")]
    #[case::spec(|r: &mut CreateClusterRequest| r.cluster.as_mut().unwrap().cluster_spec = None, "A ClusterSpec object is required")]
    #[case::head(
        |r: &mut CreateClusterRequest| r.cluster.as_mut().unwrap().cluster_spec.as_mut().unwrap().head_group_spec = None,
        "Cluster Spec Object requires HeadGroupSpec to be populated",
    )]
    #[case::head_template(|r: &mut CreateClusterRequest| head_of(r).compute_template.clear(), "HeadGroupSpec compute template is empty")]
    #[case::parameters(|r: &mut CreateClusterRequest| head_of(r).ray_start_params.clear(), "HeadGroupSpec RayStartParams is empty")]
    #[case::head_policy(|r: &mut CreateClusterRequest| head_of(r).image_pull_policy = "Never".into(), "HeadGroupSpec unsupported value")]
    #[case::group(|r: &mut CreateClusterRequest| group_of(r).group_name.clear(), "WorkerNodeSpec 0 group name is empty")]
    #[case::template(|r: &mut CreateClusterRequest| group_of(r).compute_template.clear(), "WorkerNodeSpec 0 compute template is empty")]
    #[case::max(|r: &mut CreateClusterRequest| group_of(r).max_replicas = 0, "WorkerNodeSpec 0 MaxReplicas can not be 0")]
    #[case::bounds(|r: &mut CreateClusterRequest| group_of(r).min_replicas = 2, "WorkerNodeSpec 0 MinReplica > MaxReplicas")]
    #[case::policy(|r: &mut CreateClusterRequest| group_of(r).image_pull_policy = "always".into(), "Worker GroupSpec unsupported value")]
    fn what_is_missing_is_named(#[case] spoil: fn(&mut CreateClusterRequest), #[case] why: &str) {
        let mut request = request();
        spoil(&mut request);
        let refused = create(&request).expect_err("it is refused");
        assert!(refused.message.starts_with(why), "{}", refused.message);
    }
}
