//! Values in messages, written as existing clients compare them: as Python prints them.

use serde_json::Value;

/// A value in a message: a text as it is, anything else as Python prints it.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => nested(value),
    }
}

fn nested(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(nested).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|(key, value)| format!("{}: {}", quoted(key), nested(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

fn quoted(text: &str) -> String {
    let mark = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let escaped = text.replace('\\', "\\\\").replace('\n', "\\n");
    let escaped = if mark == '\'' { escaped.replace('\'', "\\'") } else { escaped };
    format!("{mark}{escaped}{mark}")
}
