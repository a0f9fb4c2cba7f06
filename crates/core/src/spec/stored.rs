//! Reads stored specifications, in which a newer version may have stored more properties than this version knows.

use serde_json::{Map, Value};

use super::{Property, PropertyKind, Schema};

impl Schema {
    /// The properties that this version knows, including those in nested maps and lists.
    pub fn known(&self, stored: &Map<String, Value>) -> Map<String, Value> {
        let known = |(name, value): (&String, &Value)| Some((name.clone(), self.get(name)?.known(value)));
        stored.iter().filter_map(known).collect()
    }

    /// The properties that this version does not know, including those in nested maps. Those in items of lists are
    /// left out, because an item is replaced as a whole.
    pub fn unknown(&self, stored: &Map<String, Value>) -> Map<String, Value> {
        let unknown = |(name, value): (&String, &Value)| {
            let left = match self.get(name) {
                None => Some(value.clone()),
                Some(property) => property.unknown(value),
            };
            Some((name.clone(), left?))
        };
        stored.iter().filter_map(unknown).collect()
    }

    /// The path of the first property that this version does not know, including those in nested maps and lists.
    pub fn first_unknown(&self, given: &Map<String, Value>) -> Option<String> {
        given.iter().find_map(|(name, value)| match self.get(name) {
            None => Some(name.clone()),
            Some(property) => property.first_unknown(value).map(|below| format!("{name}.{below}")),
        })
    }
}

impl Property {
    fn first_unknown(&self, value: &Value) -> Option<String> {
        match (self.kind, value) {
            (PropertyKind::Map(Some(schema)), Value::Object(map)) => schema.first_unknown(map),
            (PropertyKind::List(item), Value::Array(items)) => items
                .iter()
                .enumerate()
                .find_map(|(place, value)| Some(format!("{place}.{}", item.first_unknown(value)?))),
            _ => None,
        }
    }

    fn known(&self, value: &Value) -> Value {
        match (self.kind, value) {
            (PropertyKind::Map(Some(schema)), Value::Object(map)) => Value::Object(schema.known(map)),
            (PropertyKind::List(item), Value::Array(items)) => {
                items.iter().map(|value| item.known(value)).collect()
            }
            _ => value.clone(),
        }
    }

    fn unknown(&self, value: &Value) -> Option<Value> {
        match (self.kind, value) {
            (PropertyKind::Map(Some(schema)), Value::Object(map)) => {
                Some(schema.unknown(map)).filter(|left| !left.is_empty()).map(Value::Object)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ITEM: Property = Property::map("An item.", Schema(&[("size", Property::integer("Its size."))]));
    const SCHEMA: Schema = Schema(&[
        ("name", Property::string("Its name.")),
        ("inner", Property::map("A map.", Schema(&[("a", Property::string("A text."))]))),
        ("free", Property::free_map("Anything.")),
        ("items", Property::list("Items.", &ITEM)),
    ]);

    #[test]
    fn properties_of_a_newer_version_are_separated_from_known_ones() {
        let stored = json!({
            "name": "n", "newer": 1, "inner": {"a": "x", "b": {"c": 2}}, "free": {"any": 3},
            "items": [{"size": 1, "colour": "red"}],
        });
        let stored = stored.as_object().unwrap();
        let known = json!({"name": "n", "inner": {"a": "x"}, "free": {"any": 3}, "items": [{"size": 1}]});
        assert_eq!(Value::Object(SCHEMA.known(stored)), known);
        assert_eq!(Value::Object(SCHEMA.unknown(stored)), json!({"newer": 1, "inner": {"b": {"c": 2}}}));
    }

    #[test]
    fn a_value_of_another_type_is_left_to_the_check() {
        let stored = json!({"inner": 7, "items": "none"});
        assert_eq!(Value::Object(SCHEMA.known(stored.as_object().unwrap())), stored);
    }
}
