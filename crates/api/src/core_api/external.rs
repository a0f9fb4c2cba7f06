//! Clusters with what other rows add to them: their open jobs, and the heads of clusters that others created. The rows of
//! those have no head, so it is read from the stored object.

use std::collections::HashMap;

use muster_core::cluster::{Cluster as Row, Framework};
use muster_core::domino::FLAVOR;
use muster_core::ids::ClusterId;
use muster_core::quantity::{Cpu, Memory};
use muster_core::shape::{GPU_RESOURCE, Shape};
use muster_proto::v1alpha2 as wire;
use muster_service::{OpenJob, Service, ServiceError};
use serde_json::Value;

use super::{convert, shapes, v1};

/// Converts clusters, with one query for their open jobs, and one for the objects of those that others created.
pub(super) async fn shown_clusters(
    service: &Service,
    rows: Vec<Row>,
) -> Result<Vec<wire::Cluster>, ServiceError> {
    let ids: Vec<ClusterId> = rows.iter().map(|row| row.id).collect();
    let mut jobs = service.open_jobs(&ids).await?;
    let shown = with_heads(service, rows).await?;
    let jobs = ids.iter().map(|id| jobs.remove(id).unwrap_or_default());
    Ok(shown.into_iter().zip(jobs).map(|(shown, jobs)| with_jobs(shown, jobs)).collect())
}

/// Converts a cluster whose open jobs are known.
pub(super) async fn shown_with_jobs(
    service: &Service,
    row: Row,
    jobs: Vec<OpenJob>,
) -> Result<wire::Cluster, ServiceError> {
    let shown = with_heads(service, vec![row]).await?.pop().unwrap_or_default();
    Ok(with_jobs(shown, jobs))
}

fn with_jobs(shown: wire::Cluster, jobs: Vec<OpenJob>) -> wire::Cluster {
    let job = jobs.iter().find(|job| job.owns_cluster).map(|job| job.name.clone());
    let open_jobs = jobs.into_iter().map(|job| job.name).collect();
    wire::Cluster { open_jobs, job: job.unwrap_or_default(), ..shown }
}

async fn with_heads(service: &Service, rows: Vec<Row>) -> Result<Vec<wire::Cluster>, ServiceError> {
    let is_stored =
        |row: &Row| row.framework == Some(Framework::Ray) || row.flavor.as_deref() == Some(FLAVOR);
    let has_head = |row: &&Row| row.is_external() && is_stored(row);
    let ids: Vec<ClusterId> = rows.iter().filter(has_head).map(|row| row.id).collect();
    let mut objects = if ids.is_empty() { HashMap::new() } else { service.cluster_objects(&ids).await? };
    let shown = |row: Row| {
        let object = objects.remove(&row.id);
        with_head(convert::cluster(row), object.as_ref())
    };
    Ok(rows.into_iter().map(shown).collect())
}

/// Converts a cluster like [`shown_clusters`].
pub(super) async fn shown_cluster(service: &Service, row: Row) -> Result<wire::Cluster, ServiceError> {
    Ok(shown_clusters(service, vec![row]).await?.pop().unwrap_or_default())
}

fn with_head(mut shown: wire::Cluster, object: Option<&Value>) -> wire::Cluster {
    if let Some(head) = object.and_then(head_of_object) {
        shown.cluster_spec.get_or_insert_default().head_group_spec = Some(head);
    }
    shown
}

/// The part of Domino's objects that describes the head, by kind.
const HEADS_OF_DOMINO: [(&str, &str); 3] =
    [("DaskCluster", "scheduler"), ("RayCluster", "head"), ("SparkCluster", "master")];

/// Reads the head of a `RayCluster` of KubeRay or of a cluster of Domino; none for other objects.
fn head_of_object(object: &Value) -> Option<wire::HeadGroupSpec> {
    let of_domino = |(kind, head): (&str, &str)| {
        let resources = &object["spec"][head]["resources"];
        (object["kind"] == kind && resources.is_object()).then(|| wire::HeadGroupSpec {
            shape: Some(shapes::shown(&shape_of_resources(resources))),
            ..wire::HeadGroupSpec::default()
        })
    };
    if let Some(head) = HEADS_OF_DOMINO.into_iter().find_map(of_domino) {
        return Some(head);
    }
    if object["kind"] != "RayCluster" {
        return None;
    }
    let group = &object["spec"]["headGroupSpec"];
    let container = &group["template"]["spec"]["containers"][0];
    let mut head = v1::cluster_of_object(object).cluster_spec?.head_group_spec?;
    // Only creators with an API server write the image as an annotation.
    if head.image.is_empty() {
        container["image"].as_str().unwrap_or_default().clone_into(&mut head.image);
    }
    // The other API shows a default for an empty map.
    if group["rayStartParams"].as_object().is_none_or(serde_json::Map::is_empty) {
        head.ray_start_params.clear();
    }
    let shape = shape_of_resources(&container["resources"]);
    head.shape = (shape != Shape::default()).then(|| shapes::shown(&shape));
    Some(head)
}

/// Reads the requested amounts, or those of the limits where nothing is requested, as Kubernetes does.
fn shape_of_resources(resources: &Value) -> Shape {
    let amount = |name: &str| {
        let amount = [&resources["requests"][name], &resources["limits"][name]];
        amount.into_iter().find_map(|amount| match amount {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        })
    };
    Shape {
        cpu: amount("cpu").and_then(|amount| amount.parse::<Cpu>().ok()),
        memory: amount("memory").and_then(|amount| amount.parse::<Memory>().ok()),
        gpu: amount(GPU_RESOURCE).and_then(|amount| amount.parse().ok()),
        ..Shape::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_head_of_an_object_of_others_is_shown() {
        let container = json!({
            "name": "ray-head", "image": "rayproject/ray:2.46.0",
            "env": [{"name": "A", "value": "1"}, {"name": "MY_POD_IP", "value": "x"}],
            "resources": {"limits": {"cpu": "2", "memory": "4Gi"}, "requests": {"cpu": 1}},
        });
        let template = json!({"metadata": {"labels": {"l": "2"}}, "spec": {
            "containers": [container], "serviceAccountName": "robot",
        }});
        let head = json!({"serviceType": "NodePort", "rayStartParams": {}, "template": template});
        let object = json!({
            "kind": "RayCluster", "metadata": {"name": "fred"}, "spec": {"headGroupSpec": head},
        });
        let shown = with_head(wire::Cluster::default(), Some(&object));
        let shown = shown.cluster_spec.and_then(|spec| spec.head_group_spec).expect("a head");
        let expected = wire::HeadGroupSpec {
            image: "rayproject/ray:2.46.0".to_owned(),
            service_type: "NodePort".to_owned(),
            service_account: "robot".to_owned(),
            labels: [("l".to_owned(), "2".to_owned())].into(),
            environment: [("A".to_owned(), "1".to_owned())].into(),
            shape: Some(wire::Shape {
                cpu: "1".to_owned(),
                memory: "4Gi".to_owned(),
                ..wire::Shape::default()
            }),
            ..wire::HeadGroupSpec::default()
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_head_of_a_cluster_of_domino_has_its_amounts() {
        let resources = json!({"requests": {"cpu": "1", "memory": "4Gi"}});
        let cpu = |kind: &str, head: &str| {
            let object = json!({"kind": kind, "spec": {head: {"resources": resources}, "worker": {}}});
            Some(head_of_object(&object)?.shape?.cpu)
        };
        for (kind, head) in HEADS_OF_DOMINO {
            assert_eq!(cpu(kind, head), Some("1".to_owned()), "{kind}");
        }
        assert_eq!(cpu("DaskCluster", "head"), None);
    }

    #[test]
    fn a_cluster_shows_its_open_jobs_and_the_job_that_it_is_deleted_with() {
        let job = |name: &str, owns_cluster| OpenJob { name: name.to_owned(), owns_cluster };
        let shown = |jobs| {
            let wire::Cluster { open_jobs, job, .. } = with_jobs(wire::Cluster::default(), jobs);
            (open_jobs.join(" "), job)
        };
        assert_eq!(shown(vec![job("a", false), job("b", true)]), ("a b".to_owned(), "b".to_owned()));
        assert_eq!(shown(vec![job("a", false)]), ("a".to_owned(), String::new()));
        assert_eq!(shown(Vec::new()), (String::new(), String::new()));
    }

    #[test]
    fn odd_and_other_objects_show_no_head_or_an_empty_one() {
        let none = with_head(wire::Cluster::default(), Some(&json!({"kind": "DaskCluster"})));
        assert_eq!(none, wire::Cluster::default());
        let odd = json!({"kind": "RayCluster", "spec": {"headGroupSpec": 7}});
        assert_eq!(head_of_object(&odd), Some(wire::HeadGroupSpec::default()));
    }
}
