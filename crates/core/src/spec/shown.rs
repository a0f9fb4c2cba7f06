//! Formats values in messages as Python prints them, because existing clients compare the messages.

use serde_json::Value;

/// Formats a value in a message: a text as it is, any other value as Python prints it.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => printed(value),
    }
}

/// Formats a value as Python prints it.
pub fn printed(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(printed).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|(key, value)| format!("{}: {}", quoted(key), printed(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

/// Formats a text in quotes, as Python prints it.
pub fn quoted(text: &str) -> String {
    let mark = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let escaped = text.replace('\\', "\\\\").replace('\n', "\\n");
    let escaped = if mark == '\'' { escaped.replace('\'', "\\'") } else { escaped };
    format!("{mark}{escaped}{mark}")
}

/// Formats texts as a list, as Python prints it.
pub fn listed<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(quoted).collect();
    format!("[{}]", texts.join(", "))
}
