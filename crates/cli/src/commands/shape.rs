//! `muster shape`: what nodes can be given by name; and how a shape is written.

mod template;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use muster_core::quantity::{Cpu, Memory};
use muster_core::shape;
use muster_proto::v1alpha2::{
    ListComputeTemplatesRequest, ListShapesRequest, ListShapesResponse, Machine, Shape,
};

use super::{NamespaceFlag, PAGE, pages};
use crate::connect::{Client, ServerFlags};
use crate::format::{self, Format, FormatFlag};
use crate::output;

/// Show, create and delete the shapes that nodes can be given by name
#[derive(Debug, Parser)]
pub(crate) struct ShapeCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(List),
    Create(Box<template::Create>),
    Show(template::Show),
    Delete(template::Delete),
}

/// List the shapes of the namespace and of the server's configuration; with -o wide also what its machine has
#[derive(Debug, Parser)]
struct List {
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

impl ShapeCommand {
    pub(crate) fn run(self) -> ExitCode {
        let Self { command } = self;
        match command {
            Command::List(list) => list.run(),
            Command::Create(create) => create.run(),
            Command::Show(show) => show.run(),
            Command::Delete(delete) => delete.run(),
        }
    }
}

impl List {
    fn run(self) -> ExitCode {
        output::run(async {
            let Self { namespace, format, server } = self;
            let mut client = server.connect().await?;
            let call = async |client: &Client| client.admin().list_shapes(ListShapesRequest {}).await;
            let message: ListShapesResponse = client.ask(call).await?.into_inner();
            let page = async |page_token: String| {
                let request = ListComputeTemplatesRequest {
                    namespace: namespace.namespace.clone(),
                    page_size: PAGE,
                    page_token,
                    ..ListComputeTemplatesRequest::default()
                };
                let list =
                    async |client: &Client| client.templates().list_compute_templates(request.clone()).await;
                let answer = client.ask(list).await?.into_inner();
                Ok((answer.compute_templates, answer.next_page_token))
            };
            let templates = pages(page).await?;
            let nothing = "no shapes have names here: create one with muster shape create, add [[shape]] to the \
                           server's configuration file, or give amounts, such as --shape cpu=2,memory=4Gi,gpu=1";
            let named: Vec<Shape> =
                templates.iter().map(template::to_shape).chain(message.shapes.iter().cloned()).collect();
            let shown = ListShapesResponse { shapes: named.clone(), ..message.clone() };
            let listed = format::list(format.format, &named, "shapes", &shown, nothing)?;
            if format.format == Format::Wide {
                output::print(&message.machines.iter().map(machine).collect::<String>());
            }
            Ok(listed)
        })
    }
}

/// What a machine has, in a line.
fn machine(Machine { instance, cpu, memory, gpu }: &Machine) -> String {
    let memory = memory.parse().map_or_else(|_| memory.clone(), Memory::rounded);
    format!("{instance} has {cpu} cpu, {memory} memory and {gpu} gpu\n")
}

/// A shape as it is written on the command line: a name, or amounts.
pub(super) fn parse(text: &str) -> Result<Shape, String> {
    if !text.contains('=') {
        let name = text.to_owned();
        return if name.is_empty() { Err(expected(text)) } else { Ok(Shape { name, ..Shape::default() }) };
    }
    let mut shape = Shape::default();
    for pair in text.split(',') {
        let (key, value) = pair.split_once('=').ok_or_else(|| expected(pair))?;
        amount(&mut shape, key, value)?.ok_or_else(|| expected(pair))?;
    }
    Ok(shape)
}

fn expected(given: &str) -> String {
    format!("'{given}' is no shape: a name, or amounts such as cpu=2,memory=4Gi,gpu=1 are expected")
}

/// Which of two values was meant, nobody can tell.
pub(super) fn once(key: &str, is_first: bool) -> Result<(), String> {
    if is_first { Ok(()) } else { Err(format!("{key} is given twice: give it once")) }
}

/// Sets one amount of a shape; nothing if this is the name of none.
pub(super) fn amount(shape: &mut Shape, key: &str, value: &str) -> Result<Option<()>, String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    match key {
        "cpu" => {
            once(key, shape.cpu.is_empty())?;
            let cpu: Cpu = value.parse().map_err(|error| words(&error))?;
            shape::Shape { cpu: Some(cpu), ..shape::Shape::default() }
                .check()
                .map_err(|error| words(&error))?;
            shape.cpu = cpu.to_string();
        }
        "memory" => {
            once(key, shape.memory.is_empty())?;
            let memory: Memory = value.parse().map_err(|error| words(&error))?;
            shape::Shape { memory: Some(memory), ..shape::Shape::default() }
                .check()
                .map_err(|error| words(&error))?;
            shape.memory = memory.to_string();
        }
        "gpu" => {
            once(key, shape.gpu.is_none())?;
            let wrong = |_| format!("'{value}' is not a number of gpus: 0, 1, 2, … is expected");
            shape.gpu = Some(value.parse().map_err(wrong)?);
        }
        _ => return Ok(None),
    }
    Ok(Some(()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn a_shape_is_a_name_or_amounts() {
        assert_eq!(parse("small").unwrap(), Shape { name: "small".to_owned(), ..Shape::default() });
        let (cpu, memory) = ("500m".to_owned(), "4Gi".to_owned());
        assert_eq!(
            parse("cpu=0.5,memory=4Gi,gpu=1").unwrap(),
            Shape { cpu, memory, gpu: Some(1), ..Shape::default() }
        );
    }

    #[rstest]
    #[case("", "'' is no shape: a name, or amounts such as cpu=2,memory=4Gi,gpu=1 are expected")]
    #[case("cpu=2,disk=4Gi", "'disk=4Gi' is no shape")]
    #[case("cpu=2,", "'' is no shape")]
    #[case("cpu=two", "'two' is not an amount of cpu: 2, 0.5 or 500m is expected")]
    #[case("memory=-1", "'-1' is not an amount of memory")]
    #[case("gpu=1.5", "'1.5' is not a number of gpus")]
    #[case("cpu=0", "cpu is 0, and nothing runs on none")]
    #[case("memory=1", "memory is 1, and no program runs in less than 1Mi")]
    #[case("cpu=1,cpu=2", "cpu is given twice: give it once")]
    #[case("memory=1Gi,cpu=1,memory=1Gi", "memory is given twice: give it once")]
    #[case("gpu=1,gpu=1", "gpu is given twice: give it once")]
    fn what_is_no_shape_is_refused_in_a_sentence(#[case] given: &str, #[case] why: &str) {
        let error = parse(given).unwrap_err();
        assert!(error.contains(why), "{error}");
    }

    #[test]
    fn a_machine_is_told_in_round_numbers() {
        let memory = "25220112384".to_owned();
        let told = machine(&Machine { instance: "local:1".to_owned(), cpu: "2".to_owned(), memory, gpu: 0 });
        assert_eq!(told, "local:1 has 2 cpu, 23.4Gi memory and 0 gpu\n");
    }
}
