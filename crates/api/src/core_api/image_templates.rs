//! The gRPC service of image templates.

use muster_core::image_template::{ImageSpec, ImageState, ImageTemplate as Row};
use muster_core::unknown_fields::UnknownFields;
use muster_proto::v1alpha2::image_template_service_server::ImageTemplateService;
use muster_proto::v1alpha2::{
    CreateImageTemplateRequest, DeleteImageTemplateRequest, GetImageBuildLogRequest,
    GetImageBuildLogResponse, GetImageTemplateRequest, ImageTemplate, ListAllImageTemplatesRequest,
    ListAllImageTemplatesResponse, ListImageTemplatesRequest, ListImageTemplatesResponse,
};
use muster_proto::wkt::Empty;
use muster_service::lists::{Authorized, ImageTemplateQuery, ImageTemplateSort, PageRequest};
use muster_service::{Mutation, Writer};
use tonic::{Request, Response, async_trait};

use super::compute_templates::writer;
use super::find::optional;
use super::mutate::mutation;
use super::pages::{self, page_request};
use super::{CoreApi, GrpcResult, access, convert, create};
use crate::error::ApiError;

/// The sort keys of templates; the first is the default.
const SORTS: &[(&str, ImageTemplateSort)] =
    &[("name", ImageTemplateSort::Name), ("created_at", ImageTemplateSort::CreatedAt)];

/// Builds the query of a list request, of one namespace or of all.
macro_rules! query {
    ($request:expr) => {
        ImageTemplateQuery {
            name_prefix: optional(&$request.name_prefix),
            sort: pages::parse_sort(&$request.sort_by, SORTS)?,
            with_total: $request.with_total,
            ..ImageTemplateQuery::default()
        }
    };
}

impl CoreApi {
    async fn page_of_image_templates(
        &self,
        query: &Authorized<ImageTemplateQuery>,
        page: PageRequest<'_>,
    ) -> Result<(Vec<ImageTemplate>, String, Option<i32>), ApiError> {
        let page = self.service.list_page(query, page).await?;
        Ok((page.items.into_iter().map(shown).collect(), page.next_token, pages::total(page.total)))
    }
}

#[async_trait]
impl ImageTemplateService for CoreApi {
    async fn create_image_template(
        &self,
        request: Request<CreateImageTemplateRequest>,
    ) -> GrpcResult<ImageTemplate> {
        let writer = writer(&access(&request)?, request.metadata());
        let (request, Mutation { access, caller, wait }) = mutation!(request, "CreateImageTemplate");
        let writer = Writer { named: caller.request, ..writer };
        let CreateImageTemplateRequest { image_template, namespace, .. } = request;
        let given = image_template.unwrap_or_default();
        let namespace = create::namespace(&namespace, &given.namespace)?;
        let (name, provider) = (given.name.clone(), given.provider.clone());
        let named = (namespace.as_str(), name.as_str());
        let created =
            self.service.create_image_template(&access, &writer, named, &provider, spec(given)).await;
        let template = self.service.wait_for_image(created.map_err(ApiError::from)?, &wait).await;
        Ok(Response::new(shown(template.map_err(ApiError::from)?)))
    }

    async fn get_image_template(
        &self,
        request: Request<GetImageTemplateRequest>,
    ) -> GrpcResult<ImageTemplate> {
        let access = access(&request)?;
        let GetImageTemplateRequest { name, namespace } = request.into_inner();
        let found = self.service.image_template(&access, &namespace, &name).await;
        Ok(Response::new(shown(found.map_err(ApiError::from)?)))
    }

    async fn list_image_templates(
        &self,
        request: Request<ListImageTemplatesRequest>,
    ) -> GrpcResult<ListImageTemplatesResponse> {
        let access = access(&request)?;
        let request = request.into_inner();
        let namespace = Some(create::namespace(&request.namespace, "")?);
        let query = ImageTemplateQuery { namespace, ..query!(request) };
        let (image_templates, next_page_token, total_size) =
            self.page_of_image_templates(&access.visible(query), page_request!(request)).await?;
        Ok(Response::new(ListImageTemplatesResponse { image_templates, next_page_token, total_size }))
    }

    async fn list_all_image_templates(
        &self,
        request: Request<ListAllImageTemplatesRequest>,
    ) -> GrpcResult<ListAllImageTemplatesResponse> {
        let access = access(&request)?;
        let request = request.into_inner();
        let query = query!(request);
        let (image_templates, next_page_token, total_size) =
            self.page_of_image_templates(&access.visible(query), page_request!(request)).await?;
        Ok(Response::new(ListAllImageTemplatesResponse { image_templates, next_page_token, total_size }))
    }

    async fn get_image_build_log(
        &self,
        request: Request<GetImageBuildLogRequest>,
    ) -> GrpcResult<GetImageBuildLogResponse> {
        let access = access(&request)?;
        let GetImageBuildLogRequest { name, namespace } = request.into_inner();
        let template =
            self.service.image_template(&access, &namespace, &name).await.map_err(ApiError::from)?;
        // Read the log after the state, so that the log of a build that has ended is complete.
        let state = template.state().as_str().to_owned();
        let log = self.service.image_build_log(&template).await.map_err(ApiError::from)?;
        Ok(Response::new(GetImageBuildLogResponse { log, state }))
    }

    async fn delete_image_template(&self, request: Request<DeleteImageTemplateRequest>) -> GrpcResult<Empty> {
        let writer = writer(&access(&request)?, request.metadata());
        let (request, Mutation { access, caller, .. }) = mutation!(request, "DeleteImageTemplate");
        let writer = Writer { named: caller.request, ..writer };
        let DeleteImageTemplateRequest { name, namespace, force, .. } = request;
        let deleted = self.service.delete_image_template(&access, &writer, &namespace, &name, force).await;
        deleted.map_err(ApiError::from)?;
        Ok(Response::new(Empty::default()))
    }
}

fn spec(given: ImageTemplate) -> ImageSpec {
    ImageSpec {
        base_image: given.base_image,
        pip_packages: given.pip_packages,
        conda_packages: given.conda_packages,
        system_packages: given.system_packages,
        environment_variables: given.environment_variables,
        custom_commands: given.custom_commands,
        compute_template: given.compute_template,
        unknown: UnknownFields::default(),
    }
}

fn shown(row: Row) -> ImageTemplate {
    let state = row.state();
    let is_ready = state == ImageState::Ready;
    let digest = row.task.outputs["digest"].as_str().unwrap_or_default().to_owned();
    ImageTemplate {
        name: row.name,
        namespace: row.namespace,
        base_image: row.spec.base_image,
        pip_packages: row.spec.pip_packages,
        conda_packages: row.spec.conda_packages,
        system_packages: row.spec.system_packages,
        environment_variables: row.spec.environment_variables,
        custom_commands: row.spec.custom_commands,
        image: if is_ready { row.image } else { String::new() },
        id: row.id.to_string(),
        state: state.as_str().to_owned(),
        status_reason: row.task.status_reason,
        digest,
        built_at: row.task.ended_at.map(convert::moment),
        compute_template: row.spec.compute_template,
        provider: row.instance.provider().to_owned(),
        created_at: Some(convert::moment(row.created_at)),
        user: row.user,
    }
}
