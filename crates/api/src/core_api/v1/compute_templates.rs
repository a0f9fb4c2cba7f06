//! The gRPC service of compute templates for KubeRay clients, with the messages and checks of the KubeRay API server.

use muster_core::compute_template::{ComputeTemplate as Row, TemplateSpec};
use muster_core::shape::Toleration;
use muster_core::unknown_fields::UnknownFields;
use muster_proto::v1::compute_template_service_server::ComputeTemplateService;
use muster_proto::v1::{
    ComputeTemplate, CreateComputeTemplateRequest, DeleteComputeTemplateRequest, GetComputeTemplateRequest,
    ListAllComputeTemplatesRequest, ListAllComputeTemplatesResponse, ListComputeTemplatesRequest,
    ListComputeTemplatesResponse, PodToleration,
};
use muster_proto::wkt::Empty;
use muster_service::Writer;
use muster_service::lists::{ComputeTemplateQuery, ComputeTemplateSort, Direction};
use prost::Message;
use tonic::{Request, Response, async_trait};

use super::super::compute_templates::writer;
use super::super::{CoreApi, access, create, mutate};
use crate::access::Access;
use crate::core_api::GrpcResult;
use crate::error::ApiError;

impl CoreApi {
    /// Lists all templates at once, since these lists have no pages.
    async fn all_templates(
        &self,
        access: &Access,
        namespace: Option<String>,
    ) -> Result<Vec<ComputeTemplate>, ApiError> {
        let sort = [ComputeTemplateSort::Namespace, ComputeTemplateSort::Name];
        let query = access.visible(ComputeTemplateQuery {
            namespace,
            sort: sort.map(|key| (key, Direction::Ascending)).to_vec(),
            ..ComputeTemplateQuery::default()
        });
        let all = self.service.list_run(&query, "", u64::MAX).await?.items;
        Ok(all.into_iter().map(shown).collect())
    }
}

#[async_trait]
impl ComputeTemplateService for CoreApi {
    async fn create_compute_template(
        &self,
        request: Request<CreateComputeTemplateRequest>,
    ) -> GrpcResult<ComputeTemplate> {
        let access = access(&request)?;
        let writer = named_writer(&access, &request, "v1.CreateComputeTemplate")?;
        let CreateComputeTemplateRequest { compute_template, namespace } = request.into_inner();
        check_namespace(&namespace)?;
        let given = compute_template.unwrap_or_default();
        if given.namespace != namespace {
            let message = "The namespace in the request is different from the namespace defined in the compute template.";
            return Err(ApiError::invalid(message).into());
        }
        let namespace = create::namespace(&namespace, "")?;
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
        check_named(&name, &namespace)?;
        let found = self.service.compute_template(&access, &namespace, &name).await;
        Ok(Response::new(shown(found.map_err(ApiError::from)?)))
    }

    async fn list_compute_templates(
        &self,
        request: Request<ListComputeTemplatesRequest>,
    ) -> GrpcResult<ListComputeTemplatesResponse> {
        let access = access(&request)?;
        let namespace = request.into_inner().namespace;
        check_namespace(&namespace)?;
        let compute_templates = self.all_templates(&access, Some(namespace)).await?;
        Ok(Response::new(ListComputeTemplatesResponse { compute_templates }))
    }

    async fn list_all_compute_templates(
        &self,
        request: Request<ListAllComputeTemplatesRequest>,
    ) -> GrpcResult<ListAllComputeTemplatesResponse> {
        let access = access(&request)?;
        let compute_templates = self.all_templates(&access, None).await?;
        Ok(Response::new(ListAllComputeTemplatesResponse { compute_templates }))
    }

    async fn delete_compute_template(
        &self,
        request: Request<DeleteComputeTemplateRequest>,
    ) -> GrpcResult<Empty> {
        let access = access(&request)?;
        let writer = named_writer(&access, &request, "v1.DeleteComputeTemplate")?;
        let DeleteComputeTemplateRequest { name, namespace } = request.into_inner();
        check_named(&name, &namespace)?;
        // Existing clients delete templates that are in use.
        let deleted = self.service.delete_compute_template(&access, &writer, &namespace, &name, true).await;
        deleted.map_err(ApiError::from)?;
        Ok(Response::new(Empty::default()))
    }
}

/// Returns the caller with the request id, which can only come from the header: the messages have no field.
fn named_writer<R: Message>(access: &Access, request: &Request<R>, method: &str) -> Result<Writer, ApiError> {
    let caller = mutate::caller(access, request.metadata(), "", method, request.get_ref())?;
    Ok(Writer { named: caller.request, ..writer(access, request.metadata()) })
}

fn check_namespace(namespace: &str) -> Result<(), ApiError> {
    if namespace.is_empty() {
        return Err(ApiError::invalid("Namespace is empty. Please specify a valid value."));
    }
    Ok(())
}

fn check_named(name: &str, namespace: &str) -> Result<(), ApiError> {
    if name.is_empty() {
        return Err(ApiError::invalid("Compute template name is empty. Please specify a valid value."));
    }
    check_namespace(namespace)
}

fn spec(given: ComputeTemplate) -> TemplateSpec {
    let toleration = |PodToleration { key, operator, value, effect }| Toleration {
        key,
        operator,
        value,
        effect,
        unknown: UnknownFields::default(),
    };
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

fn shown(Row { namespace, name, spec, .. }: Row) -> ComputeTemplate {
    let toleration =
        |Toleration { key, operator, value, effect, .. }| PodToleration { key, operator, value, effect };
    ComputeTemplate {
        name,
        namespace,
        cpu: spec.cpu,
        memory: spec.memory,
        memory_unit: spec.unit().to_owned(),
        gpu: spec.gpu,
        gpu_accelerator: spec.gpu_accelerator,
        tolerations: spec.tolerations.into_iter().map(toleration).collect(),
        extended_resources: spec.extended_resources,
    }
}
