//! The gRPC service of compute templates.

use muster_core::compute_template::{ComputeTemplate as Row, TemplateSpec};
use muster_core::principal::Door;
use muster_core::unknown_fields::UnknownFields;
use muster_proto::v1alpha2::compute_template_service_server::ComputeTemplateService;
use muster_proto::v1alpha2::{
    ComputeTemplate, CreateComputeTemplateRequest, DeleteComputeTemplateRequest, GetComputeTemplateRequest,
    ListAllComputeTemplatesRequest, ListAllComputeTemplatesResponse, ListComputeTemplatesRequest,
    ListComputeTemplatesResponse,
};
use muster_proto::wkt::Empty;
use muster_service::lists::{Authorized, ComputeTemplateQuery, ComputeTemplateSort, PageRequest};
use muster_service::{Mutation, Writer};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, async_trait};

use super::find::optional;
use super::mutate::mutation;
use super::pages::{self, page_request};
use super::shapes::{pod_toleration, toleration};
use super::{CoreApi, GrpcResult, access, convert, create};
use crate::access::Access;
use crate::access_log::REQUEST_ID;
use crate::error::ApiError;

/// The sort keys of templates; the first is the default.
const SORTS: &[(&str, ComputeTemplateSort)] =
    &[("name", ComputeTemplateSort::Name), ("created_at", ComputeTemplateSort::CreatedAt)];

/// Builds the query of a list request, of one namespace or of all.
macro_rules! query {
    ($request:expr) => {
        ComputeTemplateQuery {
            name_prefix: optional(&$request.name_prefix),
            sort: pages::parse_sort(&$request.sort_by, SORTS)?,
            with_total: $request.with_total,
            ..ComputeTemplateQuery::default()
        }
    };
}

impl CoreApi {
    async fn page_of_templates(
        &self,
        query: &Authorized<ComputeTemplateQuery>,
        page: PageRequest<'_>,
    ) -> Result<(Vec<ComputeTemplate>, String, Option<i32>), ApiError> {
        let page = self.service.list_page(query, page).await?;
        Ok((page.items.into_iter().map(shown).collect(), page.next_token, pages::total(page.total)))
    }
}

#[async_trait]
impl ComputeTemplateService for CoreApi {
    async fn create_compute_template(
        &self,
        request: Request<CreateComputeTemplateRequest>,
    ) -> GrpcResult<ComputeTemplate> {
        let writer = writer(&access(&request)?, request.metadata());
        let (request, Mutation { access, caller, .. }) = mutation!(request, "CreateComputeTemplate");
        let writer = Writer { named: caller.request, ..writer };
        let CreateComputeTemplateRequest { compute_template, namespace, .. } = request;
        let given = compute_template.unwrap_or_default();
        let namespace = create::namespace(&namespace, &given.namespace)?;
        let name = given.name.clone();
        let created =
            self.service.create_compute_template(&access, &writer, &namespace, &name, spec(given)).await;
        Ok(Response::new(shown(created.map_err(ApiError::from)?)))
    }

    async fn get_compute_template(
        &self,
        request: Request<GetComputeTemplateRequest>,
    ) -> GrpcResult<ComputeTemplate> {
        let access = access(&request)?;
        let GetComputeTemplateRequest { name, namespace } = request.into_inner();
        let found = self.service.compute_template(&access, &namespace, &name).await;
        Ok(Response::new(shown(found.map_err(ApiError::from)?)))
    }

    async fn list_compute_templates(
        &self,
        request: Request<ListComputeTemplatesRequest>,
    ) -> GrpcResult<ListComputeTemplatesResponse> {
        let access = access(&request)?;
        let request = request.into_inner();
        let namespace = Some(create::namespace(&request.namespace, "")?);
        let query = ComputeTemplateQuery { namespace, ..query!(request) };
        let (compute_templates, next_page_token, total_size) =
            self.page_of_templates(&access.visible(query), page_request!(request)).await?;
        Ok(Response::new(ListComputeTemplatesResponse { compute_templates, next_page_token, total_size }))
    }

    async fn list_all_compute_templates(
        &self,
        request: Request<ListAllComputeTemplatesRequest>,
    ) -> GrpcResult<ListAllComputeTemplatesResponse> {
        let access = access(&request)?;
        let request = request.into_inner();
        let query = query!(request);
        let (compute_templates, next_page_token, total_size) =
            self.page_of_templates(&access.visible(query), page_request!(request)).await?;
        Ok(Response::new(ListAllComputeTemplatesResponse { compute_templates, next_page_token, total_size }))
    }

    async fn delete_compute_template(
        &self,
        request: Request<DeleteComputeTemplateRequest>,
    ) -> GrpcResult<Empty> {
        let writer = writer(&access(&request)?, request.metadata());
        let (request, Mutation { access, caller, .. }) = mutation!(request, "DeleteComputeTemplate");
        let writer = Writer { named: caller.request, ..writer };
        let DeleteComputeTemplateRequest { name, namespace, force, .. } = request;
        let deleted = self.service.delete_compute_template(&access, &writer, &namespace, &name, force).await;
        deleted.map_err(ApiError::from)?;
        Ok(Response::new(Empty::default()))
    }
}

/// Returns the caller and the request id, as events of plain writes record them.
pub(super) fn writer(access: &Access, metadata: &MetadataMap) -> Writer {
    let request_id = metadata.get(REQUEST_ID.as_str()).and_then(|id| id.to_str().ok()).unwrap_or_default();
    Writer {
        principal: access.principal().clone(),
        door: Door::Core,
        request_id: request_id.to_owned(),
        named: None,
    }
}

fn spec(given: ComputeTemplate) -> TemplateSpec {
    TemplateSpec {
        cpu: given.cpu,
        memory: given.memory,
        memory_unit: given.memory_unit,
        gpu: given.gpu,
        gpu_accelerator: given.gpu_accelerator,
        tolerations: given.tolerations.into_iter().map(toleration).collect(),
        extended_resources: given.extended_resources,
        unknown: UnknownFields::default(),
    }
}

fn shown(Row { namespace, name, spec, created_at, .. }: Row) -> ComputeTemplate {
    ComputeTemplate {
        name,
        namespace,
        cpu: spec.cpu,
        memory: spec.memory,
        memory_unit: spec.unit().to_owned(),
        gpu: spec.gpu,
        gpu_accelerator: spec.gpu_accelerator,
        tolerations: spec.tolerations.into_iter().map(pod_toleration).collect(),
        extended_resources: spec.extended_resources,
        created_at: Some(convert::moment(created_at)),
    }
}
