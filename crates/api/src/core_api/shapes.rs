//! Shapes that requests can name instead of amounts.

use muster_core::capacity::Capacity;
use muster_core::ids::InstanceId;
use muster_core::shape::NamedShape;
use muster_proto::v1alpha2 as wire;

use super::CoreApi;
use crate::error::ApiError;

impl CoreApi {
    /// Replaces shape names by amounts, so that a later change of a shape does not affect existing clusters.
    pub(super) fn resolve_shapes(&self, cluster: &mut wire::Cluster) -> Result<(), ApiError> {
        let Some(spec) = &mut cluster.cluster_spec else { return Ok(()) };
        let head = spec.head_group_spec.iter_mut().filter_map(|head| head.shape.as_mut());
        let workers = spec.worker_group_spec.iter_mut().filter_map(|group| group.shape.as_mut());
        head.chain(workers).try_for_each(|shape| resolve(&self.shapes, shape))
    }

    /// The capacity of each instance.
    pub(super) fn machines(&self) -> Vec<wire::Machine> {
        let machine = |(instance, capacity): (InstanceId, Capacity)| wire::Machine {
            instance: instance.to_string(),
            cpu: capacity.cpu.to_string(),
            memory: capacity.memory.to_string(),
            gpu: capacity.gpu,
        };
        self.service.capacities().into_iter().map(machine).collect()
    }
}

fn resolve(known: &[NamedShape], given: &mut wire::Shape) -> Result<(), ApiError> {
    if given.name.is_empty() {
        return Ok(());
    }
    let name = std::mem::take(&mut given.name);
    let Some(shape) = known.iter().find(|shape| shape.name == name) else {
        let names: Vec<&str> = known.iter().map(|shape| shape.name.as_str()).collect();
        let choice = if names.is_empty() {
            "none is configured".to_owned()
        } else {
            format!("there are {}", names.join(", "))
        };
        let message =
            format!("there is no shape '{name}': {choice}; or give amounts, such as cpu=2,memory=4Gi,gpu=1");
        return Err(ApiError::invalid(message).code("UnknownShape"));
    };
    let of_name = shown(shape);
    let or = |given: &mut String, named: String| {
        if given.is_empty() {
            *given = named;
        }
    };
    or(&mut given.cpu, of_name.cpu);
    or(&mut given.memory, of_name.memory);
    given.gpu = given.gpu.or(of_name.gpu);
    Ok(())
}

/// A shape on the wire.
pub(super) fn shown(shape: &NamedShape) -> wire::Shape {
    wire::Shape {
        name: shape.name.clone(),
        cpu: shape.cpu.map(|cpu| cpu.to_string()).unwrap_or_default(),
        memory: shape.memory.map(|memory| memory.to_string()).unwrap_or_default(),
        gpu: shape.gpu,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<NamedShape> {
        let shape = |name: &str, gpu| NamedShape {
            name: name.to_owned(),
            cpu: "2".parse().ok(),
            memory: "4Gi".parse().ok(),
            gpu,
        };
        vec![shape("small", None), shape("fast", Some(1))]
    }

    fn given(name: &str, memory: &str) -> wire::Shape {
        wire::Shape { name: name.to_owned(), memory: memory.to_owned(), ..wire::Shape::default() }
    }

    #[test]
    fn a_name_stands_for_amounts_and_those_given_beside_it_win() {
        let mut shape = given("fast", "8Gi");
        resolve(&known(), &mut shape).unwrap();
        let resolved =
            wire::Shape { cpu: "2".to_owned(), memory: "8Gi".to_owned(), gpu: Some(1), name: String::new() };
        assert_eq!(shape, resolved);
        let mut plain = given("", "1Gi");
        resolve(&[], &mut plain).unwrap();
        assert_eq!(plain, given("", "1Gi"));
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_that_are_known() {
        let refused = |known: &[NamedShape]| resolve(known, &mut given("big", "")).unwrap_err().message;
        let rest = "or give amounts, such as cpu=2,memory=4Gi,gpu=1";
        assert_eq!(refused(&known()), format!("there is no shape 'big': there are small, fast; {rest}"));
        assert_eq!(refused(&[]), format!("there is no shape 'big': none is configured; {rest}"));
    }
}
