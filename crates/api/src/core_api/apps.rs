//! The gRPC service of apps.

use muster_core::app::{AppUse as RowUse, Process};
use muster_core::unknown_fields::UnknownFields;
use muster_proto::v1alpha2::app_service_server::AppService;
use muster_proto::v1alpha2::{
    App, AppProcess, AppUse, AttachAppRequest, DetachAppRequest, EndAppRequest, ListAppsRequest,
    ListAppsResponse, RegisterAppRequest, RenewAppRequest,
};
use muster_service::apps::{AppWithUses, Registration};
use muster_service::find::ClusterRef;
use muster_service::lists::{AppQuery, AppSort};
use tonic::{Request, Response, async_trait};

use super::compute_templates::writer;
use super::pages::{self, page_request};
use super::{CoreApi, GrpcResult, access, convert, create};
use crate::error::ApiError;

/// The sort keys of apps; the first is the default.
const SORTS: &[(&str, AppSort)] = &[("name", AppSort::Name), ("created_at", AppSort::CreatedAt)];

#[async_trait]
impl AppService for CoreApi {
    async fn list_apps(&self, request: Request<ListAppsRequest>) -> GrpcResult<ListAppsResponse> {
        let access = access(&request)?;
        let request = request.into_inner();
        let namespace = match request.namespace.as_str() {
            "-" => None,
            given => Some(create::namespace(given, "")?),
        };
        let mut query = AppQuery {
            namespace: namespace.clone(),
            with_uses: true,
            sort: pages::parse_sort(&request.sort_by, SORTS)?,
            ..AppQuery::default()
        };
        if !request.cluster.is_empty() {
            let named = ClusterRef {
                namespace: &request.namespace,
                name: &request.cluster,
                framework: "",
                provider: &request.provider,
                id: None,
            };
            query.cluster = Some(self.find(&access, &named).await?.id);
        }
        let instance = self.service.instance_of_apps(&request.provider).map_err(ApiError::from)?;
        let app = match (request.app.as_str(), &namespace) {
            ("", _) => None,
            (_, None) => {
                return Err(ApiError::invalid("app is given for all namespaces: give one namespace").into());
            }
            (app, Some(namespace)) => Some((&instance, namespace.as_str(), app)),
        };
        let page = self.service.list_apps(query, &access, app, page_request!(request)).await;
        let page = page.map_err(ApiError::from)?;
        Ok(Response::new(ListAppsResponse {
            apps: page.items.into_iter().map(shown).collect(),
            next_page_token: page.next_token,
        }))
    }

    async fn register_app(&self, request: Request<RegisterAppRequest>) -> GrpcResult<App> {
        let access = access(&request)?;
        let request = request.into_inner();
        let namespace = create::namespace(&request.namespace, "")?;
        if !request.cluster.is_empty() {
            create::check_name(&request.cluster)?;
        }
        let instance = self.service.instance_of_apps(&request.provider).map_err(ApiError::from)?;
        let registration = Registration {
            app: &request.app,
            process: request.process.map(process),
            cluster: &request.cluster,
            across_rollouts: request.across_rollouts,
        };
        let registered = self.service.register_app(&access, &instance, &namespace, registration).await;
        Ok(Response::new(shown(registered.map_err(ApiError::from)?)))
    }

    async fn renew_app(&self, request: Request<RenewAppRequest>) -> GrpcResult<App> {
        let access = access(&request)?;
        let RenewAppRequest { namespace, id, process: given } = request.into_inner();
        let renewed = self.service.renew_app(&access, &namespace, &id, given.map(process)).await;
        Ok(Response::new(shown(renewed.map_err(ApiError::from)?)))
    }

    async fn end_app(&self, request: Request<EndAppRequest>) -> GrpcResult<App> {
        let access = access(&request)?;
        let EndAppRequest { namespace, id } = request.into_inner();
        let ended = self.service.end_app(&access, &namespace, &id).await;
        Ok(Response::new(shown(ended.map_err(ApiError::from)?)))
    }

    async fn attach_app(&self, request: Request<AttachAppRequest>) -> GrpcResult<App> {
        let access = access(&request)?;
        let writer = writer(&access, request.metadata());
        let request = request.into_inner();
        let AttachAppRequest { namespace, cluster, app, framework, provider } = &request;
        let named = ClusterRef { namespace, name: cluster, framework, provider, id: None };
        let cluster = self.find(&access, &named).await?;
        let changed = self.service.change_app_use(&access, &writer, &cluster, app, true).await;
        Ok(Response::new(shown(changed.map_err(ApiError::from)?)))
    }

    async fn detach_app(&self, request: Request<DetachAppRequest>) -> GrpcResult<App> {
        let access = access(&request)?;
        let writer = writer(&access, request.metadata());
        let request = request.into_inner();
        let DetachAppRequest { namespace, cluster, app, framework, provider } = &request;
        let named = ClusterRef { namespace, name: cluster, framework, provider, id: None };
        let cluster = self.find(&access, &named).await?;
        let changed = self.service.change_app_use(&access, &writer, &cluster, app, false).await;
        Ok(Response::new(shown(changed.map_err(ApiError::from)?)))
    }
}

fn process(given: AppProcess) -> Process {
    let AppProcess { pid, start_time, boot_id } = given;
    Process { pid, start_time, boot_id, unknown: UnknownFields::default() }
}

fn shown(found: AppWithUses) -> App {
    let AppWithUses { app, uses, deployment, lease } = found;
    App {
        id: app.id.to_string(),
        namespace: app.namespace,
        name: app.name,
        kind: app.kind.as_str().to_owned(),
        uid: app.uid,
        state: app.state.as_str().to_owned(),
        uses: uses.into_iter().map(shown_use).collect(),
        cluster: app.cluster_name,
        instance: app.instance.to_string(),
        project: app.project,
        created_at: Some(convert::moment(app.created_at)),
        ended_at: app.ended_at.map(convert::moment),
        lease: lease.map(convert::span),
        deployment: deployment.unwrap_or_default(),
    }
}

fn shown_use(used: RowUse) -> AppUse {
    AppUse {
        cluster: used.cluster_name,
        cluster_id: used.cluster.to_string(),
        ephemeral: used.ephemeral,
        since: Some(convert::moment(used.since)),
    }
}
