//! The gRPC service of clusters for existing KubeRay clients.

use std::collections::HashMap;

use muster_core::cluster::{Cluster as Row, Framework};
use muster_core::event::Event;
use muster_core::ids::{ActionId, ClusterId, LOCAL_PROVIDER};
use muster_proto::v1::cluster_service_server::ClusterService;
use muster_proto::v1::{
    Cluster, CreateClusterRequest, DeleteClusterRequest, GetClusterRequest, ListAllClustersRequest,
    ListAllClustersResponse, ListClustersRequest, ListClustersResponse,
};
use muster_proto::wkt::Empty;
use muster_service::find::{ClusterRef, FindError};
use muster_service::lists::{ClusterQuery, ClusterSort, Direction};
use muster_service::{Mutation, Recipe, ServiceError};
use serde_json::Value;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, async_trait};

use super::super::{CoreApi, access, convert, create, mutate};
use super::{check, cluster, ray_cluster, request};
use crate::access::Access;
use crate::core_api::GrpcResult;
use crate::error::ApiError;

/// The label `app.kubernetes.io/managed-by` of clusters that a KubeRay API server or Muster created.
const MANAGED_BY: &str = "kuberay-apiserver";

/// The largest number of events that a cluster is shown with.
const SHOWN_EVENTS: usize = 10;

/// The number of latest events that are read per cluster, since some are not about its `RayCluster` and are dropped.
const READ_EVENTS: u32 = 40;

impl CoreApi {
    /// Lists the clusters that this API shows: Ray clusters that a KubeRay API server or Muster created.
    async fn v1_page(
        &self,
        access: &Access,
        namespace: Option<String>,
        token: &str,
        limit: i64,
    ) -> Result<(Vec<Cluster>, String), ApiError> {
        let limit = u64::try_from(limit).map_err(|_| {
            ApiError::invalid(format!("limit is {limit}: give 0, for all, or a positive number"))
        })?;
        let sort = [ClusterSort::Namespace, ClusterSort::Name];
        let query = access.visible(ClusterQuery {
            namespace,
            framework: Some(Framework::Ray),
            managed_by: Some(MANAGED_BY.to_owned()),
            sort: sort.map(|key| (key, Direction::Ascending)).to_vec(),
            ..ClusterQuery::default()
        });
        let limit = if limit == 0 { u64::MAX } else { limit };
        let run = self.service.list_run(&query, token, limit).await.map_err(name_token_continue)?;
        Ok((self.v1_clusters(run.items).await?, run.next_token))
    }

    /// Converts clusters, with one query for all objects and one for all events.
    async fn v1_clusters(&self, rows: Vec<Row>) -> Result<Vec<Cluster>, ApiError> {
        let ids: Vec<ClusterId> = rows.iter().map(|row| row.id).collect();
        let objects = self.service.cluster_objects(&ids).await?;
        self.v1_with_events(rows, objects).await
    }

    async fn v1_with_events(
        &self,
        rows: Vec<Row>,
        mut objects: HashMap<ClusterId, Value>,
    ) -> Result<Vec<Cluster>, ApiError> {
        let ids: Vec<ClusterId> = rows.iter().map(|row| row.id).collect();
        let mut events = self.service.latest_events(&ids, READ_EVENTS).await?;
        Ok(rows.into_iter().map(|row| shown(row, &mut objects, &mut events)).collect())
    }

    /// Finds the cluster of a request, with its object, if this API shows it, and checks the permission of the caller.
    async fn v1_find(
        &self,
        access: &Access,
        namespace: &str,
        name: &str,
    ) -> Result<(Row, HashMap<ClusterId, Value>), ApiError> {
        check::named(name, namespace)?;
        let named = ClusterRef { namespace, name, framework: "ray", provider: "", id: None };
        let missing = || {
            let message = format!("Cluster {name} not found in namespace {namespace}");
            ApiError::not_found(message).code("ClusterNotFound")
        };
        let found = match self.service.find_cluster(access, &named).await {
            Ok(found) => {
                let (mut known, objects) = self.v1_known(vec![found]).await?;
                return known.pop().map(|row| (row, objects)).ok_or_else(missing);
            }
            Err(FindError::Ambiguous(found)) => self.v1_known(found).await?,
            Err(FindError::Missing | FindError::OtherCluster(_)) => return Err(missing()),
            Err(FindError::Service(error)) => return Err(error.into()),
        };
        let (found, objects) = found;
        match found.as_slice() {
            [] => Err(missing()),
            [row] => {
                let named = ClusterRef { id: Some(row.id), ..named };
                let row = self.service.find_cluster(access, &named).await.map_err(|_| missing())?;
                Ok((row, objects))
            }
            _ => Err(ApiError::invalid(format!(
                "several clusters are named {name} in namespace {namespace}: use /apis/v1alpha2, which distinguishes them"
            ))),
        }
    }

    /// Deletes a cluster whose object Kubernetes refused, since clients expect that nothing is left. Returns the error.
    async fn v1_discard(&self, mutation: &Mutation, error: ApiError) -> ApiError {
        let action: Option<ActionId> = error.action.as_ref().and_then(|id| id.parse().ok());
        if let Some(action) = action
            && let Err(failed) = self.service.discard_refused(&mutation.caller, action).await
        {
            tracing::warn!(error = %failed.message, %action, "cannot delete a cluster that was refused");
        }
        error
    }

    /// Returns the clusters that this API shows, and their objects.
    async fn v1_known(&self, mut rows: Vec<Row>) -> Result<(Vec<Row>, HashMap<ClusterId, Value>), ApiError> {
        let ids: Vec<ClusterId> = rows.iter().map(|row| row.id).collect();
        let objects = self.service.cluster_objects(&ids).await?;
        rows.retain(|row| match objects.get(&row.id) {
            Some(object) => is_managed(object),
            // A cluster whose object was refused or is not created yet does not exist for KubeRay clients.
            None => row.instance.provider() == LOCAL_PROVIDER,
        });
        Ok((rows, objects))
    }
}

/// Renames the parameter in an error about a page token: this API calls it `continue`.
fn name_token_continue(error: ServiceError) -> ServiceError {
    match error.message.strip_prefix("page_token") {
        Some(rest) => ServiceError { message: format!("continue{rest}"), ..error },
        None => error,
    }
}

/// Returns true if a KubeRay API server or Muster created the object.
fn is_managed(object: &Value) -> bool {
    object["metadata"]["labels"]["app.kubernetes.io/managed-by"] == MANAGED_BY
}

fn shown(
    row: Row,
    objects: &mut HashMap<ClusterId, Value>,
    events: &mut HashMap<ClusterId, Vec<Event>>,
) -> Cluster {
    let (object, mut events) = (objects.remove(&row.id), events.remove(&row.id).unwrap_or_default());
    let shown = match object {
        Some(object) => {
            // Keep only the events of Kubernetes about the object itself.
            events.retain(is_of_object);
            ray_cluster::cluster(&object)
        }
        None => cluster::of_wire(convert::cluster(row)),
    };
    events.truncate(SHOWN_EVENTS);
    let events = events.into_iter().map(|event| cluster::event(&shown.name, event)).collect();
    Cluster { events, ..shown }
}

/// Returns true if an event was reported about a `RayCluster`.
fn is_of_object(event: &Event) -> bool {
    let object = event.data.get("object").and_then(Value::as_str);
    object.is_some_and(|object| object.starts_with("RayCluster/"))
}

/// Builds a mutation with the default wait. A request id can only come from the header: the messages have no field.
fn mutation(
    access: Access,
    metadata: &MetadataMap,
    method: &str,
    request: &impl prost::Message,
) -> Result<Mutation, ApiError> {
    let caller = mutate::caller(&access, metadata, "", method, request)?;
    Ok(Mutation { access, caller, wait: mutate::wait("", None)? })
}

#[async_trait]
impl ClusterService for CoreApi {
    async fn create_cluster(&self, request: Request<CreateClusterRequest>) -> GrpcResult<Cluster> {
        let access = access(&request)?;
        let (metadata, _, request) = request.into_parts();
        check::create(&request)?;
        let mutation = mutation(access, &metadata, "v1.CreateCluster", &request)?;
        let Mutation { access, caller, .. } = &mutation;
        let create = Box::pin(async {
            let mut given = request::cluster(request.cluster.unwrap_or_default());
            let without_groups =
                given.cluster_spec.as_ref().is_none_or(|spec| spec.worker_group_spec.is_empty());
            let namespace = create::namespace(&request.namespace, &given.namespace)?;
            self.service.authorize_namespace(access, &namespace)?;
            self.resolve_templates(&namespace, &mut given).await?;
            let new = self.new_cluster(access.principal(), namespace, given);
            let create::New { mut cluster, profile } = new.map_err(check::explain_quantity)?;
            if without_groups && cluster.instance.provider() != LOCAL_PROVIDER {
                // The object gets only the groups that were given, without the default group.
                cluster.groups.clear();
            }
            Ok::<_, ApiError>(self.service.create_cluster(caller, cluster, Recipe::New(profile), true).await?)
        });
        let (row, action) = match self.service.mutate(&mutation, create).await {
            Ok(created) => created,
            Err(error) => return Err(self.v1_discard(&mutation, error).await.into()),
        };
        let created = self.v1_clusters(vec![row]).await?.pop().unwrap_or_default();
        mutate::with_action(created, &action)
    }

    async fn get_cluster(&self, request: Request<GetClusterRequest>) -> GrpcResult<Cluster> {
        let access = access(&request)?;
        let GetClusterRequest { name, namespace } = request.into_inner();
        let (row, objects) = self.v1_find(&access, &namespace, &name).await?;
        Ok(Response::new(self.v1_with_events(vec![row], objects).await?.pop().unwrap_or_default()))
    }

    async fn list_cluster(&self, request: Request<ListClustersRequest>) -> GrpcResult<ListClustersResponse> {
        let access = access(&request)?;
        let ListClustersRequest { namespace, r#continue, limit } = request.into_inner();
        check::namespace(&namespace)?;
        let (clusters, r#continue) = self.v1_page(&access, Some(namespace), &r#continue, limit).await?;
        Ok(Response::new(ListClustersResponse { clusters, r#continue }))
    }

    async fn list_all_clusters(
        &self,
        request: Request<ListAllClustersRequest>,
    ) -> GrpcResult<ListAllClustersResponse> {
        let access = access(&request)?;
        let ListAllClustersRequest { r#continue, limit } = request.into_inner();
        let (clusters, r#continue) = self.v1_page(&access, None, &r#continue, limit).await?;
        Ok(Response::new(ListAllClustersResponse { clusters, r#continue }))
    }

    async fn delete_cluster(&self, request: Request<DeleteClusterRequest>) -> GrpcResult<Empty> {
        let access = access(&request)?;
        let (metadata, _, request) = request.into_parts();
        let mutation = mutation(access, &metadata, "v1.DeleteCluster", &request)?;
        let Mutation { access, caller, .. } = &mutation;
        let delete = Box::pin(async {
            let (cluster, _) = self.v1_find(access, &request.namespace, &request.name).await?;
            Ok::<_, ApiError>(self.service.delete_cluster(caller, &cluster, false).await?)
        });
        let (_, action) = self.service.mutate(&mutation, delete).await?;
        mutate::with_action(Empty {}, &action)
    }
}
