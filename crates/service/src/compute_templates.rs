//! Creates, reads and deletes compute templates: shapes that have a name in a namespace.

use std::sync::Arc;

use muster_core::compute_template::{ComputeTemplate, TemplateSpec};
use muster_core::event::Event;
use muster_core::ids::InstanceId;
use muster_core::shape::Shape;
use muster_engine::new_id;
use muster_engine::ports::provider::{NAME_TAKEN, ProviderError, TemplateProvider};
use muster_store::commands::{DeleteComputeTemplate, InsertComputeTemplate};

use crate::access::{Access, UNOWNED};
use crate::authorize::Resource;
use crate::error::{ErrorKind, ServiceError};
use crate::find::is_permitted;
use crate::service::Service;
use crate::write_event::{Object, Writer, Written};

/// The largest number of clusters that a refusal names.
const NAMED_USERS: usize = 5;

impl Service {
    /// Creates a template, as a record of the provider that stores the templates of its namespace, otherwise as a
    /// row. A repeated request gets the template that the first one created.
    pub async fn create_compute_template(
        &self,
        access: &Access,
        writer: &Writer,
        namespace: &str,
        name: &str,
        spec: TemplateSpec,
    ) -> Result<ComputeTemplate, ServiceError> {
        let create = async {
            self.authorize_namespace(access, namespace)?;
            let new = ComputeTemplate {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                project: self.project_of(namespace)?.to_owned(),
                instance: None,
                uid: new_id().to_string(),
                spec: TemplateSpec { memory_unit: spec.unit().to_owned(), ..spec },
                created_at: self.now(),
            };
            new.check()
                .map_err(|why| ServiceError::invalid(why.to_string()).code("InvalidComputeTemplate"))?;
            let known = self.store().compute_template(namespace, name).await?;
            if known.is_some_and(|known| known.instance.is_none()) {
                return Err(taken(namespace, name));
            }
            let template = match self.template_provider(namespace).await? {
                Some(provider) => {
                    let created =
                        provider.create(&new).await.map_err(|error| refused(error, namespace, name))?;
                    ComputeTemplate { project: new.project, ..created }
                }
                None => new,
            };
            let events = vec![self.template_event(writer, Written::Created, &template)];
            let named = self.named_write(writer, template.uid.clone());
            let insert = InsertComputeTemplate { template: template.clone(), events, named };
            if self.store().insert_compute_template(insert).await? {
                Ok(template)
            } else {
                Err(taken(namespace, name))
            }
        };
        let replay = async |first: String| {
            let found = self.compute_template(access, namespace, name).await?;
            if found.uid == first { Ok(found) } else { Err(unknown(namespace, name)) }
        };
        Box::pin(self.write_once(writer, create, replay)).await
    }

    fn template_provider_of(&self, instance: &InstanceId) -> Option<Arc<dyn TemplateProvider>> {
        self.engine.provider(instance)?.template_provider()
    }

    /// The provider that stores the templates of a namespace, if there is one.
    async fn template_provider(
        &self,
        namespace: &str,
    ) -> Result<Option<Arc<dyn TemplateProvider>>, ServiceError> {
        for instance in self.engine.instances() {
            if let Some(provider) = self.template_provider_of(&instance)
                && provider.keeps(namespace).await?
            {
                return Ok(Some(provider));
            }
        }
        Ok(None)
    }

    /// The template with this name, if the caller may perform the operation on it.
    pub async fn compute_template(
        &self,
        access: &Access,
        namespace: &str,
        name: &str,
    ) -> Result<ComputeTemplate, ServiceError> {
        let what = format!("compute template '{namespace}/{name}'");
        let found = self.store().compute_template(namespace, name).await?;
        let template = found.ok_or_else(|| unknown(namespace, name))?;
        let on = Resource { what: &what, project: &template.project, owner: &UNOWNED };
        if is_permitted(access, on)? { Ok(template) } else { Err(unknown(namespace, name)) }
    }

    /// Deletes a template. Without `force`, a template that clusters use is refused.
    pub async fn delete_compute_template(
        &self,
        access: &Access,
        writer: &Writer,
        namespace: &str,
        name: &str,
        force: bool,
    ) -> Result<(), ServiceError> {
        let delete = async {
            let template = self.compute_template(access, namespace, name).await?;
            if !force {
                let users = self.store().clusters_with_template(namespace, name).await?;
                let what = format!("compute template '{namespace}/{name}'");
                check_unused(&what, &users).map_err(|error| error.code("ComputeTemplateInUse"))?;
            }
            if let Some(instance) = &template.instance {
                let provider = self.template_provider_of(instance).ok_or_else(|| {
                    let message = format!(
                        "this server does not serve '{instance}', which has the template: use the server that does"
                    );
                    ServiceError::new(ErrorKind::Unavailable, message)
                })?;
                provider.delete(&template).await?;
            }
            let events = vec![self.template_event(writer, Written::Deleted, &template)];
            let named = self.named_write(writer, template.uid.clone());
            self.store().delete_compute_template(DeleteComputeTemplate { template, events, named }).await?;
            Ok(())
        };
        self.write_once(writer, delete, async |_| Ok(())).await
    }

    /// Resolves the name of a shape in a namespace: a compute template there, otherwise a configured shape.
    pub async fn named_shape(&self, namespace: &str, name: &str) -> Result<Shape, ServiceError> {
        match self.store().compute_template(namespace, name).await? {
            Some(template) => shape_of(&template),
            None => self.find_shape(name).cloned().ok_or_else(|| self.unknown_shape(name, namespace)),
        }
    }

    /// The shape of a template's nodes. A missing template is an invalid reference, not a missing object of the
    /// request.
    pub async fn shape_of_template(&self, namespace: &str, name: &str) -> Result<Shape, ServiceError> {
        match self.store().compute_template(namespace, name).await? {
            Some(template) => shape_of(&template),
            None => Err(bad_reference(format!(
                "compute template '{name}' not found in namespace '{namespace}': create it first, or give a shape"
            ))),
        }
    }

    fn template_event(&self, writer: &Writer, written: Written, template: &ComputeTemplate) -> Event {
        let ComputeTemplate { namespace, name, project, .. } = template;
        let id = format!("{namespace}/{name}");
        self.write_event(writer, written, &Object { kind: "ComputeTemplate", id, name, project })
    }
}

/// Refuses to delete an object that clusters use, and names some of them.
pub(crate) fn check_unused(what: &str, users: &[String]) -> Result<(), ServiceError> {
    if users.is_empty() {
        return Ok(());
    }
    let named: Vec<&str> = users.iter().take(NAMED_USERS).map(String::as_str).collect();
    let more = if users.len() > NAMED_USERS { ", …" } else { "" };
    let (clusters, these) = if users.len() == 1 { ("cluster", "it") } else { ("clusters", "them") };
    let message = format!(
        "{what} is used by {clusters} {}{more}: delete {these} first, or pass force",
        named.join(", ")
    );
    Err(ServiceError::new(ErrorKind::Conflict, message))
}

fn shape_of(ComputeTemplate { namespace, name, spec, .. }: &ComputeTemplate) -> Result<Shape, ServiceError> {
    spec.shape()
        .map_err(|why| bad_reference(format!("compute template '{namespace}/{name}' cannot be used: {why}")))
}

fn bad_reference(message: String) -> ServiceError {
    ServiceError::invalid(message).code("UnknownComputeTemplate")
}

fn unknown(namespace: &str, name: &str) -> ServiceError {
    ServiceError::not_found(format!("Compute template {name} not found in namespace {namespace}"))
}

fn taken(namespace: &str, name: &str) -> ServiceError {
    let message = format!("Compute template with name {name} already exists in namespace {namespace}");
    ServiceError::new(ErrorKind::Exists, message).code("ComputeTemplateExists")
}

fn refused(error: ProviderError, namespace: &str, name: &str) -> ServiceError {
    if error.reason == NAME_TAKEN { taken(namespace, name) } else { error.into() }
}
