//! `muster shape create|show|delete`: shapes of a namespace, which are compute templates.

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::{
    ComputeTemplate, CreateComputeTemplateRequest, DeleteComputeTemplateRequest, GetComputeTemplateRequest,
    Shape,
};

use crate::commands::NamespaceFlag;
use crate::connect::{Client, ServerFlags};
use crate::failure::{Exit, Failure};
use crate::format::{self, FormatFlag};
use crate::output::{self, message};

/// Create a shape that clusters of the namespace can use by name
#[derive(Debug, Parser)]
pub(super) struct Create {
    /// Name of the shape
    name: String,
    /// Resources of a node: whole processors, memory with a unit, and accelerators, as in cpu=2,memory=4Gi,gpu=1
    #[arg(value_parser = parse)]
    amounts: ComputeTemplate,
    /// The resource name of the accelerators on Kubernetes [default: nvidia.com/gpu]
    #[arg(long, value_name = "NAME")]
    gpu_resource: Option<String>,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

/// Show a shape of the namespace
#[derive(Debug, Parser)]
pub(super) struct Show {
    /// Name of the shape
    #[arg(add = crate::complete::shapes())]
    name: String,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

/// Delete a shape of the namespace; clusters that were created with it keep their resources
#[derive(Debug, Parser)]
pub(super) struct Delete {
    /// Name of the shape
    #[arg(add = crate::complete::shapes())]
    name: String,
    /// Delete it even if clusters use it
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    server: ServerFlags,
}

impl Create {
    pub(super) fn run(self) -> ExitCode {
        output::run(async {
            let mut client = self.server.connect().await?;
            let template = ComputeTemplate {
                name: self.name,
                gpu_accelerator: self.gpu_resource.unwrap_or_default(),
                ..self.amounts
            };
            let (name, namespace) = (template.name.clone(), self.namespace.resolve(&mut client).await?);
            let request = CreateComputeTemplateRequest {
                compute_template: Some(template),
                namespace: namespace.clone(),
                ..CreateComputeTemplateRequest::default()
            };
            // The request is not retried without an answer: the shape may have been created.
            let created = client.templates().create_compute_template(request).await;
            let created = created.map_err(|status| about_shape(status.into(), &name, &namespace))?;
            show(&self.format, &created.into_inner())
        })
    }
}

impl Show {
    pub(super) fn run(self) -> ExitCode {
        output::run(async {
            let mut client = self.server.connect_to_existing().await?;
            let namespace = self.namespace.resolve(&mut client).await?;
            let get = async |client: &Client| {
                let (name, namespace) = (self.name.clone(), namespace.clone());
                client.templates().get_compute_template(GetComputeTemplateRequest { name, namespace }).await
            };
            let found = client.retry(get).await;
            let found = found.map_err(|failure| about_shape(failure, &self.name, &namespace))?;
            show(&self.format, &found.into_inner())
        })
    }
}

impl Delete {
    pub(super) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, force, namespace, server } = self;
            let mut client = server.connect_to_existing().await?;
            let namespace = namespace.resolve(&mut client).await?;
            let request = DeleteComputeTemplateRequest {
                name: name.clone(),
                namespace: namespace.clone(),
                force,
                ..DeleteComputeTemplateRequest::default()
            };
            let deleted = client.templates().delete_compute_template(request).await;
            deleted.map_err(|status| about_shape(status.into(), &name, &namespace))?;
            message!("shape '{name}' deleted");
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// The beginning of errors about a compute template.
const TEMPLATE: &str = "compute template";

/// Returns an error of the API of compute templates in the words of users, to whom these are shapes.
fn about_shape(mut failure: Failure, name: &str, namespace: &str) -> Failure {
    let begins = failure.what.get(..TEMPLATE.len()).unwrap_or_default();
    if !begins.eq_ignore_ascii_case(TEMPLATE) {
        return failure;
    }
    if failure.is_taken {
        failure.what = format!("shape '{name}' already exists in namespace '{namespace}'");
        return failure.hint("choose another name, or delete it first with `muster shape delete`");
    }
    if failure.exit == Exit::NotFound {
        failure.what = format!("shape '{name}' not found in namespace '{namespace}'");
        return failure.hint("`muster shape list` lists the shapes; -n selects a namespace");
    }
    failure.what.replace_range(..TEMPLATE.len(), "shape");
    failure
}

fn show(format: &FormatFlag, template: &ComputeTemplate) -> anyhow::Result<ExitCode> {
    let row = to_shape(template);
    format::one(format.format, &row, |wide| crate::table::render(std::slice::from_ref(&row), wide))
}

/// Converts a template to a named shape.
pub(super) fn to_shape(template: &ComputeTemplate) -> Shape {
    Shape {
        name: template.name.clone(),
        cpu: template.cpu.to_string(),
        memory: format!("{}{}", template.memory, template.memory_unit),
        gpu: Some(template.gpu).filter(|gpu| *gpu > 0),
        gpu_resource: template.gpu_accelerator.clone(),
        extended_resources: template.extended_resources.clone(),
        tolerations: template.tolerations.clone(),
        ..Shape::default()
    }
}

/// Parses the amounts on the command line.
fn parse(text: &str) -> Result<ComputeTemplate, String> {
    let given = super::parse(text)?;
    if !given.name.is_empty() {
        return Err(super::not_a_shape(text));
    }
    let Ok(cpu) = given.cpu.parse() else {
        return Err("named shapes need a whole number of processors: give cpu, such as cpu=2".to_owned());
    };
    let (amount, unit) = given.memory.split_at(given.memory.trim_end_matches(char::is_alphabetic).len());
    let Ok(memory) = amount.parse() else {
        return Err("named shapes need memory in whole units: give memory, such as memory=4Gi".to_owned());
    };
    if unit.is_empty() {
        return Err("memory has no unit: add one, such as memory=4Gi".to_owned());
    }
    Ok(ComputeTemplate {
        cpu,
        memory,
        memory_unit: unit.to_owned(),
        gpu: given.gpu.unwrap_or_default(),
        ..ComputeTemplate::default()
    })
}

#[cfg(test)]
mod tests {
    use muster_api::error::ApiError;
    use rstest::rstest;
    use tonic::Status;

    use super::*;

    #[test]
    fn amounts_are_parsed() {
        let template = parse("cpu=2,memory=4Gi,gpu=1").unwrap();
        let amounts = (template.cpu, template.memory, template.memory_unit.as_str(), template.gpu);
        assert_eq!(amounts, (2, 4, "Gi", 1));
        assert_eq!(to_shape(&template).memory, "4Gi");
    }

    #[rstest]
    #[case(
        ApiError::not_found("Compute template x not found"),
        "shape 'x' not found in namespace 'ns'\nhint: `muster"
    )]
    #[case(
        ApiError::exists("Compute template with name x"),
        "shape 'x' already exists in namespace 'ns'\nhint: "
    )]
    #[case(
        ApiError::conflict("compute template 'ns/x' is used by ns/fred"),
        "shape 'ns/x' is used by ns/fred"
    )]
    #[case(ApiError::not_found("namespace 'ns' could not be found"), "namespace 'ns' could not")]
    fn errors_name_a_shape(#[case] error: ApiError, #[case] begins: &str) {
        let shown = about_shape(Status::from(error).into(), "x", "ns").to_string();
        assert!(shown.starts_with(begins), "{shown}");
    }

    #[rstest]
    #[case("small", "'small' is not a shape")]
    #[case("memory=4Gi", "give cpu")]
    #[case("cpu=500m,memory=4Gi", "whole number of processors")]
    #[case("cpu=1", "give memory")]
    #[case("cpu=1,memory=1.3Ki", "memory is")]
    fn amounts_that_templates_cannot_store_are_refused(#[case] given: &str, #[case] why: &str) {
        let error = parse(given).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
