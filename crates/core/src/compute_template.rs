//! Compute templates: shapes that have a name in a namespace, in the whole numbers of the KubeRay API server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::InstanceId;
use crate::object_name::is_object_name;
use crate::quantity::{Cpu, InvalidQuantity, Memory};
use crate::shape::{InvalidShape, Shape, Toleration};
use crate::time::Timestamp;
use crate::unknown_fields::UnknownFields;

/// The unit of memory where a template has none.
pub const DEFAULT_MEMORY_UNIT: &str = "Gi";

/// The longest name: it has to fit into the value of a Kubernetes label.
const LONGEST_NAME: usize = 63;

/// A shape that has a name in a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComputeTemplate {
    /// The namespace.
    pub namespace: String,
    /// Its name, unique in the namespace.
    pub name: String,
    /// The tenant.
    pub project: String,
    /// The provider instance that has its record; none if Muster's row is the record.
    pub instance: Option<InstanceId>,
    /// Identifies the record; a template that is recreated under the same name has another UID.
    pub uid: String,
    /// Its amounts.
    pub spec: TemplateSpec,
    /// The time of creation.
    pub created_at: Timestamp,
}

/// The amounts of a template.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TemplateSpec {
    /// Whole processors.
    pub cpu: u32,
    /// Memory, in units.
    pub memory: u32,
    /// The unit of memory, such as `Gi`.
    pub memory_unit: String,
    /// Whole accelerators.
    pub gpu: u32,
    /// The resource name by which accelerators are requested; the default one if empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gpu_accelerator: String,
    /// Taints of machines that are tolerated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Amounts of extended resources, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extended_resources: BTreeMap<String, u32>,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// The reason why a template was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTemplate {
    /// No name.
    #[error("Compute template name is empty. Please specify a valid value.")]
    NoName,
    /// A name that Kubernetes would refuse.
    #[error(
        "compute template name is '{0}': must have lowercase letters, digits, '-' and '.', begin and end with a \
         letter or digit, and have at most {LONGEST_NAME} characters"
    )]
    Name(String),
    /// No cpu.
    #[error("Cpu amount is zero. Please specify a valid value.")]
    NoCpu,
    /// No memory.
    #[error("Memory amount is zero. Please specify a valid value.")]
    NoMemory,
    /// A unit that does not exist.
    #[error("invalid memory quantity \"{given}\": {why}")]
    MemoryUnit {
        /// Amount and unit.
        given: String,
        /// The problem.
        why: InvalidQuantity,
    },
    /// The shape of the template is invalid.
    #[error(transparent)]
    Shape(#[from] InvalidShape),
}

impl ComputeTemplate {
    /// Refuses a template that no node can be created from, and a name that Kubernetes would refuse.
    pub fn check(&self) -> Result<(), InvalidTemplate> {
        if self.name.is_empty() {
            return Err(InvalidTemplate::NoName);
        }
        self.spec.check()?;
        if !is_object_name(&self.name, LONGEST_NAME) {
            return Err(InvalidTemplate::Name(self.name.clone()));
        }
        Ok(())
    }
}

impl TemplateSpec {
    fn check(&self) -> Result<(), InvalidTemplate> {
        if self.cpu == 0 {
            return Err(InvalidTemplate::NoCpu);
        }
        if self.memory == 0 {
            return Err(InvalidTemplate::NoMemory);
        }
        Ok(self.shape()?.check()?)
    }

    /// The unit of memory, which defaults to [`DEFAULT_MEMORY_UNIT`].
    pub fn unit(&self) -> &str {
        if self.memory_unit.is_empty() { DEFAULT_MEMORY_UNIT } else { &self.memory_unit }
    }

    /// The shape of the nodes of this template. Tolerations are read as by the KubeRay API server: an operator or
    /// effect that it does not know counts as `Equal` or `PreferNoSchedule`.
    pub fn shape(&self) -> Result<Shape, InvalidTemplate> {
        let given = format!("{}{}", self.memory, self.unit());
        let memory: Memory = given.parse().map_err(|why| InvalidTemplate::MemoryUnit { given, why })?;
        let extended_resources = self.extended_resources.iter().filter(|(_, amount)| **amount > 0);
        Ok(Shape {
            cpu: Some(Cpu::from_millis(u64::from(self.cpu) * 1_000)),
            memory: Some(memory),
            gpu: Some(self.gpu).filter(|gpu| *gpu > 0),
            gpu_resource: Some(self.gpu_accelerator.clone()).filter(|resource| !resource.is_empty()),
            extended_resources: extended_resources.map(|(name, amount)| (name.clone(), *amount)).collect(),
            tolerations: self.tolerations.iter().map(understood).collect(),
            ..Shape::default()
        })
    }
}

fn understood(toleration: &Toleration) -> Toleration {
    let exists = toleration.operator == "Exists";
    let effect = match toleration.effect.as_str() {
        effect @ ("NoExecute" | "NoSchedule") => effect,
        _ => "PreferNoSchedule",
    };
    Toleration {
        key: toleration.key.clone(),
        operator: if exists { "Exists" } else { "Equal" }.to_owned(),
        // Kubernetes refuses a value beside `Exists`.
        value: if exists { String::new() } else { toleration.value.clone() },
        effect: effect.to_owned(),
        ..Toleration::default()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn spec() -> TemplateSpec {
        TemplateSpec { cpu: 2, memory: 4, ..TemplateSpec::default() }
    }

    fn template(name: &str, spec: TemplateSpec) -> ComputeTemplate {
        ComputeTemplate {
            namespace: "n".to_owned(),
            name: name.to_owned(),
            project: "p".to_owned(),
            instance: None,
            uid: String::new(),
            spec,
            created_at: Timestamp::from_micros(0),
        }
    }

    #[rstest]
    #[case::right("small", spec(), None)]
    #[case::no_name("", spec(), Some("Compute template name is empty. Please specify a valid value."))]
    #[case::no_cpu("a", TemplateSpec { cpu: 0, ..spec() }, Some("Cpu amount is zero. Please specify a valid value."))]
    #[case::no_memory("a", TemplateSpec { memory: 0, ..spec() }, Some("Memory amount is zero. Please specify a valid value."))]
    #[case::bad_unit("a", TemplateSpec { memory_unit: "Foo".to_owned(), ..spec() }, Some("invalid memory quantity \"4Foo\""))]
    #[case::bytes("a", TemplateSpec { memory_unit: "k".to_owned(), ..spec() }, Some("memory is"))]
    #[case::bad_name("A_b", spec(), Some("compute template name is 'A_b': must have lowercase"))]
    #[case::empty_part("a..b", spec(), Some("compute template name is 'a..b'"))]
    #[case::long_name(&"a".repeat(64), spec(), Some("'aaa"))]
    #[case::bad_resource("a", TemplateSpec { gpu_accelerator: "a b".to_owned(), ..spec() }, Some("'a b'"))]
    fn templates_are_checked(#[case] name: &str, #[case] spec: TemplateSpec, #[case] why: Option<&str>) {
        let checked = template(name, spec).check().map_err(|error| error.to_string());
        match why {
            None => assert_eq!(checked, Ok(())),
            Some(why) => assert!(checked.as_ref().is_err_and(|error| error.contains(why)), "{checked:?}"),
        }
    }

    #[test]
    fn a_template_is_a_shape() {
        let toleration = |operator: &str, effect: &str| Toleration {
            key: "k".to_owned(),
            operator: operator.to_owned(),
            value: "v".to_owned(),
            effect: effect.to_owned(),
            ..Toleration::default()
        };
        let spec = TemplateSpec {
            gpu: 1,
            gpu_accelerator: "amd.com/gpu".to_owned(),
            tolerations: vec![toleration("exists", "x"), toleration("Exists", "NoExecute")],
            extended_resources: [("a.com/x".to_owned(), 0), ("a.com/y".to_owned(), 2)].into(),
            ..spec()
        };
        let shape = spec.shape().unwrap();
        assert_eq!(shape.cpu.unwrap().to_string(), "2");
        assert_eq!(shape.memory.unwrap().to_string(), "4Gi");
        assert_eq!((shape.gpu, shape.gpu_resource.as_deref()), (Some(1), Some("amd.com/gpu")));
        assert_eq!(shape.extended_resources, [("a.com/y".to_owned(), 2)].into());
        let any = Toleration { value: String::new(), ..toleration("Exists", "NoExecute") };
        assert_eq!(shape.tolerations, [toleration("Equal", "PreferNoSchedule"), any]);
    }
}
