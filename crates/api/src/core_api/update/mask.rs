//! Applies update masks: selects the fields of a request that change an object.
//!
//! A path that names a field, or a key of a map, replaces it, even by an empty value. A path that names a whole message
//! changes only the fields that the request gives. Fields that the mask does not name are ignored.
//!
//! A gRPC message cannot distinguish a field with its default value from an absent field, so such a field counts as
//! absent. A JSON body can, even for each element of a list: see [`Fields::of_element`].

use std::collections::BTreeMap;

use muster_core::change::{MapChange, NodeChange};
use muster_core::shape::{InvalidShape, ShapeChange};
use muster_proto::v1alpha2 as wire;
use muster_proto::wkt::{FieldMask, snake_case};

use super::super::find::optional;
use super::super::shapes;
use crate::error::ApiError;

/// A field whose keys a mask can name one by one.
const ENVIRONMENT: &str = "environment";

/// A field whose parts a mask can name one by one.
const SHAPE: &str = "shape";

/// The parts of a shape.
const SHAPE_PARTS: &[&str] = &[
    "cpu",
    "memory",
    "gpu",
    "name",
    "limits",
    "gpu_resource",
    "extended_resources",
    "tolerations",
    "selectors",
];

/// Maps, whose keys are given by users and are not converted.
const MAPS: &[&str] = &["labels", "annotations", "envs", ENVIRONMENT];

/// Converts the fields of a path to the spelling of the `.proto` files; keys of maps are unchanged.
pub(super) fn normalized(path: &str) -> Result<String, ApiError> {
    let mut normal = String::with_capacity(path.len() + 4);
    let mut rest = Some(path);
    while let Some(left) = rest {
        let (field, behind) = match left.split_once('.') {
            Some((field, behind)) => (field, Some(behind)),
            None => (left, None),
        };
        let field = snake_case(field);
        if field.is_empty() || behind == Some("") {
            return Err(ApiError::invalid(format!(
                "update_mask has '{path}': must be names separated by single dots"
            )));
        }
        normal.push_str(&field);
        rest = behind;
        if let Some(behind) = behind {
            normal.push('.');
            if MAPS.contains(&field.as_str()) {
                normal.push_str(behind);
                return Ok(normal);
            }
        }
    }
    Ok(normal)
}

/// Returns what a mask names at and below a path: an empty text for the path itself, else the rest after the dot.
pub(super) fn below<'m>(mask: &'m FieldMask, whole: &str) -> Vec<&'m str> {
    let rest = |path: &'m String| {
        let rest = path.strip_prefix(whole)?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix('.') }
    };
    mask.paths.iter().filter_map(rest).collect()
}

/// Returns the change of a map whose keys are named, or of the whole map; none if the mask names neither.
pub(super) fn map_change(named: &[&str], given: &BTreeMap<String, String>) -> Option<MapChange> {
    if named.is_empty() {
        return None;
    }
    if named.contains(&"") {
        return Some(MapChange::All(given.clone()));
    }
    let keys = named.iter().map(|key| ((*key).to_owned(), given.get(*key).cloned())).collect();
    Some(MapChange::Keys { keys })
}

/// Pairs of a field and the part below it that a mask names; an empty part means the whole field.
type NamedFields<'m> = Vec<(&'m str, &'m str)>;

/// The fields of a message that a mask names.
#[derive(Debug, Clone)]
pub(super) struct Fields<'m> {
    /// The fields that the mask names; an empty name stands for the whole message.
    named: NamedFields<'m>,
    /// The fields that the request gives; none if the request does not list them.
    given: Option<NamedFields<'m>>,
}

impl<'m> Fields<'m> {
    /// Reads the paths of a mask at or below `whole`; fields that are not among `updatable` are refused.
    pub(super) fn of(mask: &'m FieldMask, whole: &str, updatable: &[&str]) -> Result<Self, ApiError> {
        let mut named = Vec::new();
        let below = below(mask, whole);
        // A JSON body adds indexes of elements to the path of the whole list. Without that path an index is invalid.
        let names_whole = below.contains(&"");
        let is_place = |rest: &&str| names_whole && place_of(rest).is_some();
        for (field, part) in below.iter().copied().filter(|rest| !is_place(rest)).map(split) {
            let has_part = match field {
                ENVIRONMENT => true,
                SHAPE => SHAPE_PARTS.contains(&part),
                _ => false,
            };
            if !(field.is_empty() || updatable.contains(&field)) || !(part.is_empty() || has_part) {
                let rest = if part.is_empty() { field.to_owned() } else { format!("{field}.{part}") };
                return Err(ApiError::invalid(format!(
                    "update_mask has '{whole}.{rest}', which cannot be changed: use {}",
                    updatable.join(", ")
                )));
            }
            named.push((field, part));
        }
        Ok(Self { named, given: None })
    }

    /// Returns these fields for one element of a list, with the fields that a JSON body gives for that element.
    pub(super) fn of_element(&self, mask: &'m FieldMask, whole: &str, place: usize) -> Self {
        let all = below(mask, whole).into_iter().filter_map(place_of);
        let own: NamedFields<'m> = all.filter(|(of, _)| *of == place).map(|(_, rest)| split(rest)).collect();
        Self { named: self.named.clone(), given: Some(own).filter(|own| !own.is_empty()) }
    }

    /// Returns true if the mask names the whole message.
    pub(super) fn is_whole(&self) -> bool {
        self.named.iter().any(|(field, _)| field.is_empty())
    }

    /// Returns true if the request gives any of these fields; none if the request does not list them.
    pub(super) fn gives_any(&self, fields: &[&str]) -> Option<bool> {
        Some(self.given.as_ref()?.iter().any(|(field, _)| fields.contains(field)))
    }

    /// Returns the named parts of a field; an empty part means the whole field.
    fn parts(&self, field: &str) -> Vec<&str> {
        let given = self.given.iter().flatten().filter(|_| self.is_whole());
        let all = self.named.iter().chain(given);
        all.filter(|(named, _)| *named == field).map(|(_, part)| *part).collect()
    }

    /// Returns the new value of a field; none if the field does not change.
    pub(super) fn take<T: Clone + Default + PartialEq>(&self, field: &str, given: &T) -> Option<T> {
        let is_given = self.given.is_none() && *given != T::default();
        let named = !self.parts(field).is_empty() || (self.is_whole() && is_given);
        named.then(|| given.clone())
    }

    /// Builds the change of a recipe.
    pub(super) fn node_change(&self, given: &GivenNode<'_>) -> Result<NodeChange, InvalidShape> {
        let GivenNode { image, environment, args, shape } = *given;
        Ok(NodeChange {
            image: self.take("image", image).map(|image| optional(&image)),
            env: match self.parts(ENVIRONMENT).as_slice() {
                [] => self.take(ENVIRONMENT, environment).map(MapChange::All),
                parts => map_change(parts, environment),
            },
            args: self.take("args", args),
            labels: None,
            shape: self.shape_change(shape)?,
        })
    }

    /// Builds the change of a shape; a mask that names single parts leaves the other parts unchanged.
    fn shape_change(&self, given: Option<&wire::Shape>) -> Result<ShapeChange, InvalidShape> {
        // A JSON body also names paths below the parts; only the parts themselves count.
        let parts: Vec<&str> = self.parts(SHAPE).into_iter().map(|part| split(part).0).collect();
        let whole = parts.contains(&"") || parts.contains(&"name");
        let of_given = |is_given: bool| self.is_whole() && self.given.is_none() && is_given;
        let named = |amount: &str, is_given: bool| whole || parts.contains(&amount) || of_given(is_given);
        let shape = shapes::read(given)?;
        let extended = named("extended_resources", !shape.extended_resources.is_empty());
        Ok(ShapeChange {
            cpu: named("cpu", shape.cpu.is_some()).then_some(shape.cpu),
            memory: named("memory", shape.memory.is_some()).then_some(shape.memory),
            gpu: named("gpu", shape.gpu.is_some()).then_some(shape.gpu),
            limits: named("limits", !shape.limits.is_empty()).then_some(shape.limits),
            gpu_resource: named("gpu_resource", shape.gpu_resource.is_some()).then_some(shape.gpu_resource),
            extended_resources: extended.then_some(shape.extended_resources),
            tolerations: named("tolerations", !shape.tolerations.is_empty()).then_some(shape.tolerations),
            selectors: named("selectors", !shape.selectors.is_empty()).then_some(shape.selectors),
        })
    }
}

/// Splits a path into a field and the rest below it.
fn split(rest: &str) -> (&str, &str) {
    rest.split_once('.').unwrap_or((rest, ""))
}

/// Splits a path into the index of an element of a list and the rest below it.
fn place_of(rest: &str) -> Option<(usize, &str)> {
    let (place, rest) = split(rest);
    Some((place.parse().ok()?, rest))
}

/// The fields of a head or group that determine its nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct GivenNode<'g> {
    pub(super) image: &'g String,
    pub(super) environment: &'g BTreeMap<String, String>,
    pub(super) args: &'g Vec<String>,
    pub(super) shape: Option<&'g wire::Shape>,
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const UPDATABLE: &[&str] = &["image", "environment", "shape"];

    fn mask(paths: &[&str]) -> FieldMask {
        FieldMask { paths: paths.iter().map(|path| (*path).to_owned()).collect() }
    }

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[rstest]
    #[case("idleTimeout", Ok("idle_timeout"))]
    #[case("clusterSpec.headGroupSpec.image", Ok("cluster_spec.head_group_spec.image"))]
    #[case(
        "cluster_spec.headGroupSpec.environment.MY_Key",
        Ok("cluster_spec.head_group_spec.environment.MY_Key")
    )]
    #[case("envs.E1", Ok("envs.E1"))]
    #[case("labels.app.kubernetes.io/Name", Ok("labels.app.kubernetes.io/Name"))]
    #[case("labels.", Err("update_mask has 'labels.': must be names separated by single dots"))]
    #[case(
        "clusterSpec..image",
        Err("update_mask has 'clusterSpec..image': must be names separated by single dots")
    )]
    fn fields_are_written_as_in_the_proto_files_and_keys_as_they_are(
        #[case] path: &str,
        #[case] expected: Result<&str, &str>,
    ) {
        let normal = normalized(path).map_err(|error| error.message);
        assert_eq!(normal.as_deref().map_err(String::as_str), expected);
    }

    #[rstest]
    #[case::whole(&["", "A"], &[("B", "2")])]
    #[case::key(&["A"], &[("B", "1")])]
    #[case::new_value(&["B"], &[("A", "1"), ("B", "2")])]
    fn a_map_is_replaced_whole_or_key_by_key(#[case] named: &[&str], #[case] expected: &[(&str, &str)]) {
        let (given, mut present) = (map(&[("B", "2")]), map(&[("A", "1"), ("B", "1")]));
        map_change(named, &given).unwrap().apply(&mut present);
        assert_eq!(present, map(expected));
        assert_eq!(map_change(&[], &given), None);
    }

    #[rstest]
    #[case::named("m.image", "", Some(""))]
    #[case::named_and_given("m.image", "new", Some("new"))]
    #[case::whole("m", "", None)]
    #[case::whole_and_given("m", "new", Some("new"))]
    #[case::another("m.shape", "new", None)]
    fn a_field_is_taken_if_it_is_named(
        #[case] path: &str,
        #[case] given: &str,
        #[case] expected: Option<&str>,
    ) {
        let mask = mask(&[path]);
        let fields = Fields::of(&mask, "m", UPDATABLE).unwrap();
        assert_eq!(fields.take("image", &given.to_owned()).as_deref(), expected);
    }

    #[rstest]
    #[case("m.colour")]
    #[case("m.image.x")]
    #[case("m.shape.disk")]
    #[case("m.0.image")]
    fn a_path_that_names_nothing_is_refused(#[case] path: &str) {
        let refused = Fields::of(&mask(&[path]), "m", UPDATABLE).unwrap_err();
        let expected = format!("update_mask has '{path}', which cannot be changed: use ");
        assert!(refused.message.starts_with(&expected), "{refused}");
    }

    #[test]
    fn amounts_are_named_one_by_one() {
        let shape = |cpu: &str, memory: &str| wire::Shape {
            cpu: cpu.to_owned(),
            memory: memory.to_owned(),
            ..wire::Shape::default()
        };
        let mask = mask(&["m.shape.cpu", "other.shape"]);
        let fields = Fields::of(&mask, "m", UPDATABLE).unwrap();
        let change = fields.shape_change(Some(&shape("2", "2Gi"))).unwrap();
        assert_eq!(change, ShapeChange { cpu: Some("2".parse().ok()), ..ShapeChange::default() });
    }
}
