//! Converts shapes, and resolves the names that requests can give instead of amounts.

use std::collections::HashMap;

use muster_core::capacity::Capacity;
use muster_core::ids::InstanceId;
use muster_core::shape::{InvalidShape, NamedShape, Shape, Toleration, UpperLimits};
use muster_core::unknown_fields::UnknownFields;
use muster_proto::v1alpha2 as wire;

use super::CoreApi;
use super::create::check_group_count;
use super::find::optional;
use crate::error::ApiError;

impl CoreApi {
    /// Replaces shape names by amounts, so that a later change of a shape does not affect existing clusters.
    pub(super) async fn resolve_shapes(
        &self,
        namespace: &str,
        cluster: &mut wire::Cluster,
    ) -> Result<(), ApiError> {
        let Some(spec) = &mut cluster.cluster_spec else { return Ok(()) };
        // Each group may name a shape that has to be read from the database.
        check_group_count(&spec.worker_group_spec)?;
        let head = spec
            .head_group_spec
            .iter_mut()
            .filter_map(|head| Some(("head_group_spec", head.shape.as_mut()?)));
        let workers = spec
            .worker_group_spec
            .iter_mut()
            .filter_map(|group| Some((group.group_name.as_str(), group.shape.as_mut()?)));
        for (whose, given) in head.chain(workers).filter(|(_, given)| !given.name.is_empty()) {
            let named = self.service.named_shape(namespace, &given.name).await?;
            let own =
                read(Some(given)).map_err(|why| ApiError::invalid(format!("shape of {whose}: {why}")))?;
            *given = shown(&own.or(named));
        }
        Ok(())
    }

    /// Completes the shapes of a new cluster by the compute templates that it names, so that a later change of a
    /// template does not affect existing clusters.
    pub(super) async fn resolve_templates(
        &self,
        namespace: &str,
        cluster: &mut wire::Cluster,
    ) -> Result<(), ApiError> {
        let Some(spec) = &mut cluster.cluster_spec else { return Ok(()) };
        check_group_count(&spec.worker_group_spec)?;
        let head = spec.head_group_spec.iter_mut();
        let head = head.map(|head| ("head_group_spec", head.compute_template.as_str(), &mut head.shape));
        let workers = spec.worker_group_spec.iter_mut();
        let workers = workers
            .map(|group| (group.group_name.as_str(), group.compute_template.as_str(), &mut group.shape));
        // Many groups may name the same template, so each is read once.
        let mut known: HashMap<&str, Shape> = HashMap::new();
        for (whose, template, shape) in head.chain(workers).filter(|(_, template, _)| !template.is_empty()) {
            let named = match known.get(template) {
                Some(named) => named.clone(),
                None => self.service.shape_of_template(namespace, template).await?,
            };
            let own =
                read(shape.as_ref()).map_err(|why| ApiError::invalid(format!("shape of {whose}: {why}")))?;
            *shape = Some(shown(&own.or(named.clone())));
            known.insert(template, named);
        }
        Ok(())
    }

    /// Returns the capacity of each provider instance.
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

/// Reads and validates a shape; its name is ignored, since [`CoreApi::resolve_shapes`] has replaced it.
pub(super) fn read(given: Option<&wire::Shape>) -> Result<Shape, InvalidShape> {
    let Some(given) = given else { return Ok(Shape::default()) };
    let limits = given.limits.as_ref();
    let shape = Shape {
        cpu: quantity(&given.cpu)?,
        memory: quantity(&given.memory)?,
        gpu: given.gpu,
        limits: UpperLimits {
            cpu: limits.map_or(Ok(None), |limits| quantity(&limits.cpu))?,
            memory: limits.map_or(Ok(None), |limits| quantity(&limits.memory))?,
            ..UpperLimits::default()
        },
        gpu_resource: optional(&given.gpu_resource),
        extended_resources: given.extended_resources.clone(),
        tolerations: given.tolerations.iter().cloned().map(toleration).collect(),
        selectors: given.selectors.clone(),
        unknown: UnknownFields::default(),
    };
    shape.check()?;
    Ok(shape)
}

fn quantity<Q: std::str::FromStr<Err: Into<InvalidShape>>>(given: &str) -> Result<Option<Q>, InvalidShape> {
    if given.is_empty() { Ok(None) } else { given.parse().map(Some).map_err(Into::into) }
}

pub(super) fn toleration(
    wire::PodToleration { key, operator, value, effect }: wire::PodToleration,
) -> Toleration {
    Toleration { key, operator, value, effect, unknown: UnknownFields::default() }
}

/// Converts a shape to its message, without a name.
pub(super) fn shown(shape: &Shape) -> wire::Shape {
    let text = |quantity: Option<String>| quantity.unwrap_or_default();
    let cpu = |cpu: Option<muster_core::quantity::Cpu>| text(cpu.map(|cpu| cpu.to_string()));
    let memory =
        |memory: Option<muster_core::quantity::Memory>| text(memory.map(|memory| memory.to_string()));
    let limits = &shape.limits;
    wire::Shape {
        cpu: cpu(shape.cpu),
        memory: memory(shape.memory),
        gpu: shape.gpu,
        name: String::new(),
        limits: (!limits.is_empty())
            .then(|| wire::ShapeLimits { cpu: cpu(limits.cpu), memory: memory(limits.memory) }),
        gpu_resource: shape.gpu_resource.clone().unwrap_or_default(),
        extended_resources: shape.extended_resources.clone(),
        tolerations: shape.tolerations.iter().cloned().map(pod_toleration).collect(),
        selectors: shape.selectors.clone(),
    }
}

pub(super) fn pod_toleration(
    Toleration { key, operator, value, effect, .. }: Toleration,
) -> wire::PodToleration {
    wire::PodToleration { key, operator, value, effect }
}

/// Converts a named shape to its message.
pub(super) fn named(NamedShape { name, shape }: &NamedShape) -> wire::Shape {
    wire::Shape { name: name.clone(), ..shown(shape) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_shape_is_read_as_it_is_shown() {
        let shape = wire::Shape {
            cpu: "2".to_owned(),
            memory: "4Gi".to_owned(),
            gpu: Some(1),
            name: String::new(),
            limits: Some(wire::ShapeLimits { cpu: "4".to_owned(), memory: String::new() }),
            gpu_resource: "amd.com/gpu".to_owned(),
            extended_resources: BTreeMap::from([("vpc.amazonaws.com/efa".to_owned(), 1)]),
            tolerations: vec![wire::PodToleration {
                key: "gpu".to_owned(),
                operator: "Exists".to_owned(),
                value: String::new(),
                effect: "NoSchedule".to_owned(),
            }],
            selectors: BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
        };
        assert_eq!(shown(&read(Some(&shape)).unwrap()), shape);
        let refused = read(Some(&wire::Shape { cpu: "much".to_owned(), ..shape })).unwrap_err();
        assert!(refused.to_string().contains("much"), "{refused}");
    }
}
