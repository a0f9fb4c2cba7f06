//! Parses worker groups on the command line.

use std::collections::HashSet;

use muster_proto::v1alpha2::{Shape, WorkerGroupSpec};

use super::shape;
use crate::commands::parse_count;

/// Parses `name=small,workers=2,min=1,max=4,cpu=2,memory=4Gi`; `shape=` may precede an amount or a shape's name.
pub(super) fn parse(text: &str) -> Result<WorkerGroupSpec, String> {
    let mut group = WorkerGroupSpec { replicas: 1, ..WorkerGroupSpec::default() };
    let mut shape = Shape::default();
    let mut keys = HashSet::new();
    for pair in text.split(',') {
        let (key, value) = pair.split_once('=').ok_or_else(|| unknown_part(pair))?;
        let (key, value) = (key.trim(), value.trim());
        shape::check_once(key, keys.insert(key))?;
        match key {
            "name" => value.clone_into(&mut group.group_name),
            "workers" => group.replicas = parse_group_count(key, value)?,
            "min" => group.min_replicas = Some(parse_group_count(key, value)?),
            "max" => group.max_replicas = Some(parse_group_count(key, value)?),
            "shape" => match value.split_once('=') {
                None => value.clone_into(&mut shape.name),
                Some((of, amount)) => {
                    shape::set_amount(&mut shape, of, amount)?.ok_or_else(|| unknown_part(pair))?;
                }
            },
            "machine-type" => (group.machine_group, group.machine_type) = parse_machine_type(value)?,
            _ => shape::set_amount(&mut shape, key, value)?.ok_or_else(|| unknown_part(pair))?,
        }
    }
    if group.group_name.is_empty() {
        return Err(format!("'{text}' has no name: add name=NAME"));
    }
    group.shape = (shape != Shape::default()).then_some(shape);
    Ok(group)
}

/// Parses `GROUP/TYPE`.
pub(super) fn parse_machine_type(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((group, name)) if !group.is_empty() && !name.is_empty() => {
            Ok((group.to_owned(), name.to_owned()))
        }
        _ => Err(format!("'{text}' is not a machine type: must be GROUP/TYPE (see muster machines)")),
    }
}

fn parse_group_count(key: &str, value: &str) -> Result<i32, String> {
    parse_count(value).map_err(|why| format!("{key} is '{value}': {why}"))
}

fn unknown_part(given: &str) -> String {
    format!(
        "'{given}' is not part of a group: write name=NAME, workers=N, min=N, max=N, shape=NAME, cpu=, memory=, gpu= or \
         machine-type=GROUP/TYPE"
    )
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn amounts(cpu: &str, memory: &str) -> Shape {
        Shape { cpu: cpu.to_owned(), memory: memory.to_owned(), ..Shape::default() }
    }

    #[rstest]
    #[case("name=a", 1, None, None, None)]
    #[case("name=a,workers=2,min=1,max=4", 2, Some(1), Some(4), None)]
    #[case("name=a, workers = 2, min=1,max=4", 2, Some(1), Some(4), None)]
    #[case("name=a,workers=0,cpu=2,memory=4Gi", 0, None, None, Some(amounts("2", "4Gi")))]
    #[case("name=a,shape=cpu=2,memory=4Gi,workers=3", 3, None, None, Some(amounts("2", "4Gi")))]
    #[case("shape=small,name=a", 1, None, None, Some(Shape { name: "small".to_owned(), ..Shape::default() }))]
    fn a_group_is_parsed_from_its_parts(
        #[case] text: &str,
        #[case] replicas: i32,
        #[case] min_replicas: Option<i32>,
        #[case] max_replicas: Option<i32>,
        #[case] shape: Option<Shape>,
    ) {
        let group_name = "a".to_owned();
        let rest = WorkerGroupSpec::default();
        let expected = WorkerGroupSpec { group_name, replicas, min_replicas, max_replicas, shape, ..rest };
        assert_eq!(parse(text).unwrap(), expected);
    }

    #[test]
    fn a_group_can_take_slots_of_a_machine_type() {
        let group = parse("name=a,machine-type=general/medium").unwrap();
        assert_eq!((group.machine_group.as_str(), group.machine_type.as_str()), ("general", "medium"));
    }

    #[rstest]
    #[case("name=a,machine-type=medium", "'medium' is not a machine type: must be GROUP/TYPE")]
    #[case("", "'' is not part of a group")]
    #[case("small", "'small' is not part of a group")]
    #[case("workers=2", "'workers=2' has no name: add name=NAME")]
    #[case("name=a,wrokers=2", "'wrokers=2' is not part of a group")]
    #[case("name=a,shape=disk=2", "'shape=disk=2' is not part of a group")]
    #[case("name=a,name=b", "name is given twice: give it once")]
    #[case("name=a,shape=cpu=1,cpu=2", "cpu is given twice: give it once")]
    #[case("name=a,memory=0", "memory is 0: must be at least 1Mi")]
    #[case("name=a,workers=-1", "workers is '-1': must be a number, 0 or greater")]
    #[case("name=a,max=many", "max is 'many'")]
    #[case("name=a,memory=x", "'x' is not an amount of memory")]
    fn a_wrong_group_is_refused_with_the_reason(#[case] text: &str, #[case] why: &str) {
        let error = parse(text).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
