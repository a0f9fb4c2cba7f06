//! `muster shape`: lists, creates and deletes named shapes; parses shapes on the command line.

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
use crate::config_folder::settings_of_own_server;
use crate::connect::{Client, ServerFlags};
use crate::format::{self, Format, FormatFlag};
use crate::output;

/// List, create and delete shapes, the named resources of nodes
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

/// List the shapes of the namespace and of the server's configuration; with -o wide also the capacity of its machine
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
            let namespace = namespace.resolve(&mut client).await?;
            let call = async |client: &Client| client.admin().list_shapes(ListShapesRequest {}).await;
            let message: ListShapesResponse = client.retry(call).await?.into_inner();
            let page = async |page_token: String| {
                let request = ListComputeTemplatesRequest {
                    namespace: namespace.clone(),
                    page_size: PAGE,
                    page_token,
                    ..ListComputeTemplatesRequest::default()
                };
                let list =
                    async |client: &Client| client.templates().list_compute_templates(request.clone()).await;
                let answer = client.retry(list).await?.into_inner();
                Ok((answer.compute_templates, answer.next_page_token))
            };
            let templates = pages(page).await?;
            let file = if client.is_local() {
                settings_of_own_server()
            } else {
                "the server's configuration file".to_owned()
            };
            let nothing = format!(
                "no shapes: create one with `muster shape create`, add [[shape]] to {file}, or give amounts, \
                 such as --shape cpu=2,memory=4Gi,gpu=1"
            );
            let named: Vec<Shape> =
                templates.iter().map(template::to_shape).chain(message.shapes.iter().cloned()).collect();
            let shown = ListShapesResponse { shapes: named.clone(), ..message.clone() };
            let listed = format::list(format.format, &named, "shapes", &shown, &nothing)?;
            if format.format == Format::Wide {
                let is_here = client.is_local() && message.machines.len() == 1;
                output::print(
                    &message.machines.iter().map(|machine| capacity(machine, is_here)).collect::<String>(),
                );
            }
            Ok(listed)
        })
    }
}

/// Formats the capacity of a machine as one line.
fn capacity(Machine { instance, cpu, memory, gpu }: &Machine, is_here: bool) -> String {
    let memory = memory.parse().map_or_else(|_| memory.clone(), Memory::rounded);
    let name = if is_here { "this machine" } else { instance };
    format!("{name} has {cpu} cpu, {memory} memory and {gpu} gpu\n")
}

/// Parses a shape on the command line: a name, or amounts.
pub(super) fn parse(text: &str) -> Result<Shape, String> {
    if !text.contains('=') {
        let name = text.to_owned();
        return if name.is_empty() { Err(not_a_shape(text)) } else { Ok(Shape { name, ..Shape::default() }) };
    }
    let mut shape = Shape::default();
    for pair in text.split(',').map(str::trim) {
        let (key, value) = pair.split_once('=').ok_or_else(|| not_a_shape(pair))?;
        set_amount(&mut shape, key.trim(), value.trim())?.ok_or_else(|| not_a_shape(pair))?;
    }
    Ok(shape)
}

/// Common misspellings of the names of amounts.
const MISSPELLINGS: [(&str, &str); 8] = [
    ("mem", "memory"),
    ("ram", "memory"),
    ("cpus", "cpu"),
    ("cores", "cpu"),
    ("threads", "cpu"),
    ("gpus", "gpu"),
    ("accelerators", "gpu"),
    ("num_gpus", "gpu"),
];

fn not_a_shape(given: &str) -> String {
    let key = given.split_once('=');
    let meant = key.and_then(|(key, value)| {
        let (_, meant) = MISSPELLINGS.iter().find(|(word, _)| *word == key.trim().to_lowercase())?;
        Some(format!("'{}' is not part of a shape: did you mean {meant}={}?", key.trim(), value.trim()))
    });
    if let Some(meant) = meant {
        return meant;
    }
    format!("'{given}' is not a shape: write a name, or amounts such as cpu=2,memory=4Gi,gpu=1")
}

/// Fails if a key is given twice.
pub(super) fn check_once(key: &str, is_first: bool) -> Result<(), String> {
    if is_first { Ok(()) } else { Err(format!("{key} is given twice: give it once")) }
}

/// Removes the B of units such as GB and GiB.
fn without_bytes(amount: &str) -> &str {
    let unit = amount.strip_suffix('B');
    unit.filter(|unit| unit.ends_with(|last: char| last.is_ascii_alphabetic())).unwrap_or(amount)
}

/// Sets one amount of a shape; `None` if the key is unknown.
pub(super) fn set_amount(shape: &mut Shape, key: &str, value: &str) -> Result<Option<()>, String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    match key {
        "cpu" => {
            check_once(key, shape.cpu.is_empty())?;
            let cpu: Cpu = value.parse().map_err(|error| words(&error))?;
            shape::Shape { cpu: Some(cpu), ..shape::Shape::default() }
                .check()
                .map_err(|error| words(&error))?;
            shape.cpu = cpu.to_string();
        }
        "memory" => {
            check_once(key, shape.memory.is_empty())?;
            let memory: Memory = without_bytes(value).parse().map_err(|error| words(&error))?;
            shape::Shape { memory: Some(memory), ..shape::Shape::default() }
                .check()
                .map_err(|error| words(&error))?;
            shape.memory = memory.to_string();
        }
        "gpu" => {
            check_once(key, shape.gpu.is_none())?;
            let wrong = |_| format!("'{value}' is not a number of gpus: must be 0, 1, 2, …");
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
        for (written, memory) in [("4GB", "4G"), ("4GiB", "4Gi"), ("512MB", "512M")] {
            let shape = parse(&format!("cpu=1, memory = {written}")).unwrap();
            assert_eq!(shape.memory, parse(&format!("memory={memory}")).unwrap().memory, "{written}");
        }
    }

    #[rstest]
    #[case("", "'' is not a shape: write a name, or amounts such as cpu=2,memory=4Gi,gpu=1")]
    #[case("cpu=2,disk=4Gi", "'disk=4Gi' is not a shape")]
    #[case("cpu=2,mem=4Gi", "'mem' is not part of a shape: did you mean memory=4Gi?")]
    #[case("cpu=2,", "'' is not a shape")]
    #[case("cpu=two", "'two' is not an amount of cpu: must be a number of cores such as 2, 0.5 or 500m")]
    #[case("memory=-1", "'-1' is not an amount of memory")]
    #[case("gpu=1.5", "'1.5' is not a number of gpus")]
    #[case("cpu=0", "cpu is 0: must be greater than 0")]
    #[case("memory=1", "memory is 1: must be at least 1Mi")]
    #[case("cpu=1,cpu=2", "cpu is given twice: give it once")]
    #[case("memory=1Gi,cpu=1,memory=1Gi", "memory is given twice: give it once")]
    #[case("gpu=1,gpu=1", "gpu is given twice: give it once")]
    fn a_wrong_shape_is_refused_with_the_reason(#[case] given: &str, #[case] why: &str) {
        let error = parse(given).unwrap_err();
        assert!(error.contains(why), "{error}");
    }

    #[test]
    fn the_capacity_of_a_machine_is_rounded() {
        let memory = "25220112384".to_owned();
        let machine = Machine { instance: "local:1".to_owned(), cpu: "2".to_owned(), memory, gpu: 0 };
        assert_eq!(capacity(&machine, false), "local:1 has 2 cpu, 23.4Gi memory and 0 gpu\n");
        assert_eq!(capacity(&machine, true), "this machine has 2 cpu, 23.4Gi memory and 0 gpu\n");
    }
}
