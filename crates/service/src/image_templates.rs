//! Creates, reads and deletes image templates, whose images are built by tasks.

use muster_core::action::Milestone;
use muster_core::cluster::Framework;
use muster_core::event::{Event, Level, ObjectKind};
use muster_core::ids::{EventId, ImageTemplateId, InstanceId, LOCAL_PROVIDER, TaskId};
use muster_core::image_template::{ImageSpec, ImageState, ImageTemplate};
use muster_core::shape::Shape;
use muster_core::task::{Task, TaskKind};
use muster_engine::new_id;
use muster_engine::ports::images::ImageBuild;
use muster_engine::ports::provider::{INVALID, Provider, ProviderError};
use muster_store::commands::{DeleteImageTemplate, InsertImageTemplate};
use serde_json::Map;

use crate::access::{Access, UNOWNED};
use crate::authorize::Resource;
use crate::compute_templates::check_unused;
use crate::error::{ErrorKind, ServiceError};
use crate::find::is_permitted;
use crate::mutation::MilestoneWait;
use crate::placement::cluster_type;
use crate::service::Service;
use crate::write_event::{Object, Writer, Written};

/// The reason of events about fields of a template that have no effect.
const NOT_APPLIED: &str = "ImageFieldNotApplied";

impl Service {
    /// Creates a template, and with it the task that builds its image. A repeated request gets the template that the
    /// first one created.
    pub async fn create_image_template(
        &self,
        access: &Access,
        writer: &Writer,
        (namespace, name): (&str, &str),
        provider: &str,
        spec: ImageSpec,
    ) -> Result<ImageTemplate, ServiceError> {
        let create = async {
            self.authorize_namespace(access, namespace)?;
            spec.check(name)
                .map_err(|why| ServiceError::invalid(why.to_string()).code("InvalidImageTemplate"))?;
            let instance = self.instance_for(provider, &cluster_type(Framework::Ray))?;
            self.check_local_image(access, &instance)?;
            let builder = self.engine.provider(&instance).and_then(Provider::image_builder);
            let builder = builder.ok_or_else(|| {
                let message = format!(
                    "provider '{}' does not build images: choose another provider",
                    instance.provider()
                );
                ServiceError::invalid(message).code("NoProvider")
            })?;
            self.check_namespace_exists(&instance, namespace).await?;
            let ignored = builder.admit(&spec).await.map_err(refused)?;
            let image = builder.image_of(namespace, name, &spec).map_err(refused)?;
            let shape = match spec.compute_template.as_str() {
                "" => Shape::default(),
                template => self.shape_of_template(namespace, template).await?,
            };
            let (now, project) = (self.now(), self.project_of(namespace)?.to_owned());
            let build = ImageBuild {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                image: image.clone(),
                spec: spec.clone(),
                shape,
            };
            let inputs =
                serde_json::to_value(build).map_err(|error| ServiceError::invalid(error.to_string()))?;
            let task =
                Task::new(TaskId::from_uuid(new_id()), TaskKind::ImageBuild, instance.clone(), &project, now);
            let template = ImageTemplate {
                id: ImageTemplateId::from_uuid(new_id()),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                project,
                user: access.principal().id.clone(),
                instance,
                spec,
                image,
                task: Task { inputs, ..task },
                created_at: now,
            };
            let created = self.image_event(writer, Written::Created, &template);
            let warnings = ignored.into_iter().map(|message| warning(&created, message));
            let events = std::iter::once(created.clone()).chain(warnings).collect();
            let named = self.named_write(writer, template.id.to_string());
            let insert = InsertImageTemplate { template: template.clone(), events, named };
            if self.store().insert_image_template(insert).await? {
                return Ok(template);
            }
            let message = format!("Image template with name {name} already exists in namespace {namespace}");
            Err(ServiceError::new(ErrorKind::Exists, message).code("ImageTemplateExists"))
        };
        let replay = async |first: String| {
            let found = self.image_template(access, namespace, name).await?;
            if found.id.to_string() == first { Ok(found) } else { Err(unknown(namespace, name)) }
        };
        Box::pin(self.write_once(writer, create, replay)).await
    }

    /// The template with this name, if the caller may perform the operation on it.
    pub async fn image_template(
        &self,
        access: &Access,
        namespace: &str,
        name: &str,
    ) -> Result<ImageTemplate, ServiceError> {
        if name.is_empty() || namespace.is_empty() {
            return Err(ServiceError::invalid("name or namespace of the image template is empty: give both"));
        }
        let what = format!("image template '{namespace}/{name}'");
        let unknown = || unknown(namespace, name);
        let template = self.store().image_template(namespace, name).await?.ok_or_else(unknown)?;
        let on = Resource { what: &what, project: &template.project, owner: &UNOWNED };
        if is_permitted(access, on)? { Ok(template) } else { Err(unknown()) }
    }

    /// Waits for a milestone of a new template: the request is applied when the template is stored, and its goal is
    /// reached when the image is built.
    pub async fn wait_for_image(
        &self,
        template: ImageTemplate,
        wait: &MilestoneWait,
    ) -> Result<ImageTemplate, ServiceError> {
        if wait.milestone != Milestone::Reached {
            return Ok(template);
        }
        let what = format!("image template '{}/{}'", template.namespace, template.name);
        let gone = unknown(&template.namespace, &template.name);
        let waiting = self.engine.wait_for_build(template, wait.at_most);
        let Some(waited) = self.closing().run_until_cancelled(waiting).await else {
            let message =
                format!("the server is stopping, and the build of {what} has not ended; it continues");
            return Err(ServiceError::new(ErrorKind::Unavailable, message).code("ServerStopping"));
        };
        let template = waited?.ok_or(gone)?;
        match template.state() {
            ImageState::Ready => Ok(template),
            ImageState::Failed => {
                let message = format!("the build of {what} failed: {}", template.task.status_reason);
                Err(ServiceError::impossible(message).code("ImageBuildFailed"))
            }
            ImageState::Pending | ImageState::Building => {
                let message =
                    format!("the build of {what} has not ended within {}; it continues", wait.at_most);
                Err(ServiceError::new(ErrorKind::TimedOut, message))
            }
        }
    }

    /// Refuses callers who may not run code as the server's user, because that user builds and removes local images.
    fn check_local_image(&self, access: &Access, instance: &InstanceId) -> Result<(), ServiceError> {
        if instance.provider() != LOCAL_PROVIDER || self.may_run_as_server(access.principal()) {
            return Ok(());
        }
        let message = "local images are built and removed as the server's own user: only admins may do that; ask an admin";
        Err(ServiceError::forbidden(message).code("LocalProcessesNeedAdmin"))
    }

    /// Refuses a namespace that does not exist at an instance, if the provider has namespaces.
    async fn check_namespace_exists(
        &self,
        instance: &InstanceId,
        namespace: &str,
    ) -> Result<(), ServiceError> {
        let templates = self.engine.provider(instance).and_then(Provider::template_provider);
        match templates {
            Some(templates) if !templates.keeps(namespace).await? => {
                let message = format!(
                    "namespace '{namespace}' not found at provider '{}': create it first",
                    instance.provider()
                );
                Err(ServiceError::not_found(message).code("NoNamespace"))
            }
            _ => Ok(()),
        }
    }

    /// The log of a template's build.
    pub async fn image_build_log(&self, template: &ImageTemplate) -> Result<String, ServiceError> {
        Ok(self.store().task_log(template.task.id).await?)
    }

    /// Deletes a template and ends its build. Without `force`, a template that clusters use is refused. The image is
    /// removed unless another template or a cluster has it.
    pub async fn delete_image_template(
        &self,
        access: &Access,
        writer: &Writer,
        namespace: &str,
        name: &str,
        force: bool,
    ) -> Result<(), ServiceError> {
        let delete = async {
            let template = self.image_template(access, namespace, name).await?;
            self.check_local_image(access, &template.instance)?;
            if !force {
                let users = self.store().clusters_with_image(namespace, name).await?;
                let what = format!("image template '{namespace}/{name}'");
                check_unused(&what, &users).map_err(|error| error.code("ImageTemplateInUse"))?;
            }
            let events = vec![self.image_event(writer, Written::Deleted, &template)];
            let named = self.named_write(writer, template.id.to_string());
            let command = DeleteImageTemplate { template: template.clone(), events, named };
            if self.store().delete_image_template(command).await? {
                self.engine.remove_image(&template).await;
            }
            Ok(())
        };
        Box::pin(self.write_once(writer, delete, async |_| Ok(()))).await
    }

    fn image_event(&self, writer: &Writer, written: Written, template: &ImageTemplate) -> Event {
        let ImageTemplate { namespace, name, project, .. } = template;
        let id = format!("{namespace}/{name}");
        self.write_event(writer, written, &Object { kind: "ImageTemplate", id, name, project })
    }
}

fn unknown(namespace: &str, name: &str) -> ServiceError {
    ServiceError::not_found(format!("Image template {name} not found in namespace {namespace}"))
}

/// A warning beside the event of a creation.
fn warning(created: &Event, message: String) -> Event {
    Event {
        id: EventId::from_uuid(new_id()),
        level: Level::Warn,
        object_kind: ObjectKind::Other,
        reason: NOT_APPLIED.to_owned(),
        message,
        data: Map::new(),
        ..created.clone()
    }
}

fn refused(error: ProviderError) -> ServiceError {
    if error.reason == INVALID {
        return ServiceError::invalid(error.message).code("InvalidImageTemplate");
    }
    error.into()
}
