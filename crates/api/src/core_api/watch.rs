//! Streams changes of clusters (`clusters:watch`).

use futures::stream::{Stream, StreamExt as _};
use muster_proto::v1alpha2::{WatchClustersRequest, WatchClustersResponse};
use muster_service::Service;
use muster_service::lists::ClusterQuery;
use muster_service::watch::{ClusterChange, WatchMessage};
use tonic::Status;

use super::CoreApi;
use super::external::shown_with_jobs;
use super::find::optional;
use super::pages::{self, ClusterFilters};
use crate::access::Access;
use crate::error::ApiError;

impl CoreApi {
    /// Streams the current clusters and then their changes, or only the changes since a token.
    pub(super) async fn watch(
        &self,
        access: &Access,
        request: &WatchClustersRequest,
    ) -> Result<impl Stream<Item = Result<WatchClustersResponse, Status>> + use<>, ApiError> {
        let filters = ClusterFilters {
            state: &request.state,
            framework: &request.framework,
            user: &request.user,
            label: &request.label,
            name_prefix: &request.name_prefix,
            deleted: "",
            sort_by: "",
        };
        let namespace = optional(&request.namespace);
        let query = access.visible(ClusterQuery { namespace, ..pages::cluster_query(&filters)? });
        let messages = self.service.watch_clusters(query, &request.resume_token).await?;
        let service = self.service.clone();
        Ok(messages.then(move |message| {
            let service = service.clone();
            async move { Ok::<_, Status>(response(&service, message.map_err(ApiError::from)?).await?) }
        }))
    }
}

async fn response(
    service: &Service,
    WatchMessage { changed, jobs, resume_token }: WatchMessage,
) -> Result<WatchClustersResponse, ApiError> {
    let (kind, cluster) = match changed {
        None => ("BOOKMARK", None),
        Some((ClusterChange::Added, cluster)) => ("ADDED", Some(cluster)),
        Some((ClusterChange::Modified, cluster)) => ("MODIFIED", Some(cluster)),
        Some((ClusterChange::Deleted, cluster)) => ("DELETED", Some(cluster)),
    };
    let cluster = match cluster {
        Some(cluster) => Some(shown_with_jobs(service, *cluster, jobs).await?),
        None => None,
    };
    Ok(WatchClustersResponse { r#type: kind.to_owned(), cluster, resume_token })
}
