//! Reads the fields of a body, with the error messages that existing clients compare.
//!
//! Values are validated in the order in which they are read; `done` then reports missing and unknown fields.

use muster_core::spec::{printed, quoted};
use serde_json::{Map, Value};

use super::senlin_error::{MALFORMED, SenlinError};

/// The texts that are accepted as true and as false, in any case.
const YES: [&str; 6] = ["1", "on", "t", "true", "y", "yes"];
const NO: [&str; 6] = ["0", "f", "false", "n", "no", "off"];

/// The longest name.
const LONGEST_NAME: usize = 255;

/// The fields of an object in a body.
pub(super) struct FieldReader<'b> {
    fields: &'b Map<String, Value>,
    known: Vec<&'static str>,
    required: Vec<&'static str>,
}

impl<'b> FieldReader<'b> {
    pub(super) const fn new(fields: &'b Map<String, Value>) -> Self {
        Self { fields, known: Vec::new(), required: Vec::new() }
    }

    /// Reads the value of a field; none for null.
    pub(super) fn any(&mut self, key: &'static str) -> Option<&'b Value> {
        self.known.push(key);
        self.fields.get(key).filter(|value| !value.is_null())
    }

    /// Requires a field that is not null.
    pub(super) fn require(&mut self, key: &'static str) -> &mut Self {
        self.required.push(key);
        self
    }

    /// Refuses a field that is null.
    fn not_null(&self, key: &str) -> Result<(), SenlinError> {
        match self.fields.get(key) {
            Some(Value::Null) => Err(SenlinError::form(format!("Field `{key}' cannot be None"))),
            _ => Ok(()),
        }
    }

    /// Reads a text.
    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<&'b str>, SenlinError> {
        match self.any(key) {
            None => Ok(None),
            Some(Value::String(text)) if text.contains('\0') => Err(SenlinError::form(format!(
                "The value for the {key} field has the character of code 0, which cannot be stored."
            ))),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(SenlinError::form(MALFORMED)),
        }
    }

    /// Reads the profile, under either of the keys that clients use.
    pub(super) fn profile(&mut self) -> Result<Option<&'b str>, SenlinError> {
        let by_id = self.text("profile_id")?;
        Ok(by_id.or(self.text("profile")?))
    }

    /// Reads a text that is at most as long as a name.
    pub(super) fn short_text(&mut self, key: &'static str) -> Result<Option<&'b str>, SenlinError> {
        let text = self.text(key)?;
        text.map(|text| check_length(key, text)).transpose()?;
        Ok(text)
    }

    /// Reads the name of an object.
    pub(super) fn name(&mut self, key: &'static str) -> Result<Option<&'b str>, SenlinError> {
        let Some(name) = self.text(key)? else { return Ok(None) };
        if name.is_empty() {
            return Err(SenlinError::form(format!(
                "The value for the {key} field must be at least 1 characters long."
            )));
        }
        check_length(key, name)?;
        if name.chars().all(may_be_in_name) {
            return Ok(Some(name));
        }
        Err(SenlinError::form(format!(
            "The value for the '{key}' ({name}) contains illegal characters. It must contain only alphanumeric or \
             \"_-.~\" characters and must start with letter."
        )))
    }

    /// Reads a value of an enumeration.
    pub(super) fn one_of<T: std::str::FromStr>(
        &mut self,
        key: &'static str,
    ) -> Result<Option<T>, SenlinError> {
        let Some(value) = self.any(key) else { return Ok(None) };
        let parsed = value.as_str().and_then(|text| text.parse().ok());
        parsed.map(Some).ok_or_else(|| unacceptable(value, key))
    }

    /// Reads a number of nodes within bounds.
    pub(super) fn capacity(
        &mut self,
        key: &'static str,
        least: i64,
        most: u32,
    ) -> Result<Option<i64>, SenlinError> {
        let Some(value) = self.any(key) else { return Ok(None) };
        let number = match value {
            Value::Number(number) => {
                number.as_i64().ok_or_else(|| wrong_type(value, "'integer', 'string', 'null'"))?
            }
            Value::String(text) => {
                if let Some(digits) = text.strip_prefix('-')
                    && !digits.is_empty()
                    && digits.bytes().all(|byte| byte.is_ascii_digit())
                {
                    return Err(SenlinError::form(format!("{} does not match '^[0-9]*$'", quoted(text))));
                }
                text.parse().map_err(|_| not_integer(key, value))?
            }
            _ => return Err(not_integer(key, value)),
        };
        if number < least {
            return Err(SenlinError::form(format!(
                "The value for the {key} field must be greater than or equal to {least}."
            )));
        }
        if number > i64::from(most) {
            return Err(SenlinError::form(format!(
                "The value for the {key} field must be less than or equal to {most}."
            )));
        }
        Ok(Some(number))
    }

    /// Reads a count, for example of seconds.
    pub(super) fn count(&mut self, key: &'static str) -> Result<Option<u32>, SenlinError> {
        self.any(key).map(|value| count(key, value)).transpose()
    }

    /// Reads a number, with or without a fraction; a text of digits is accepted too.
    pub(super) fn number(&mut self, key: &'static str) -> Result<Option<f64>, SenlinError> {
        let Some(value) = self.any(key) else { return Ok(None) };
        let number = match value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let number = number.filter(|number| number.is_finite());
        number.map(Some).ok_or_else(|| wrong_type(value, "'number', 'null'"))
    }

    /// Reads a boolean, which may be given as text.
    pub(super) fn boolean(&mut self, key: &'static str) -> Result<Option<bool>, SenlinError> {
        let Some(value) = self.any(key) else { return Ok(None) };
        if let Value::Bool(value) = value {
            return Ok(Some(*value));
        }
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let small = text.to_lowercase();
        if YES.contains(&small.as_str()) {
            return Ok(Some(true));
        }
        if NO.contains(&small.as_str()) {
            return Ok(Some(false));
        }
        Err(SenlinError::form(format!(
            "Unrecognized value '{text}', acceptable values are: '0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', \
             'true', 'y', 'yes'"
        )))
    }

    /// Reads an object, which may be given as JSON in a text.
    pub(super) fn map(&mut self, key: &'static str) -> Result<Option<Map<String, Value>>, SenlinError> {
        let Some(value) = self.any(key) else { return Ok(None) };
        let parsed = value.as_str().and_then(|text| serde_json::from_str(text).ok());
        match parsed.unwrap_or_else(|| value.clone()) {
            Value::Object(map) => Ok(Some(map)),
            _ => Err(wrong_type(value, "'object', 'null'")),
        }
    }

    /// Reports a missing field, then unknown fields.
    pub(super) fn done(&self) -> Result<(), SenlinError> {
        if let Some(missing) = self.required.iter().find(|key| !self.fields.contains_key(**key)) {
            return Err(SenlinError::form(format!("'{missing}' is a required property")));
        }
        self.required.iter().try_for_each(|key| self.not_null(key))?;
        let mut unknown: Vec<&str> =
            self.fields.keys().map(String::as_str).filter(|key| !self.known.contains(key)).collect();
        unknown.sort_unstable();
        if unknown.is_empty() {
            return Ok(());
        }
        let verb = if unknown.len() == 1 { "was" } else { "were" };
        let unknown: Vec<String> = unknown.into_iter().map(quoted).collect();
        Err(SenlinError::form(format!(
            "Additional properties are not allowed ({} {verb} unexpected)",
            unknown.join(", ")
        )))
    }
}

/// Converts a value of a body or a query to a count.
pub(super) fn count(key: &str, value: &Value) -> Result<u32, SenlinError> {
    let number = match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let number = number.ok_or_else(|| not_integer(key, value))?;
    if number < 0 {
        return Err(SenlinError::form(format!("Value must be >= 0 for field '{key}'.")));
    }
    u32::try_from(number).map_err(|_| not_integer(key, value))
}

fn check_length(key: &str, text: &str) -> Result<(), SenlinError> {
    if text.chars().count() > LONGEST_NAME {
        return Err(SenlinError::form(format!(
            "The value for the {key} field must be less than {LONGEST_NAME} characters long."
        )));
    }
    Ok(())
}

fn may_be_in_name(character: char) -> bool {
    character.is_ascii_alphanumeric()
        || ('\u{4e00}'..='\u{9fa5}').contains(&character)
        || "._~-".contains(character)
}

fn not_integer(key: &str, value: &Value) -> SenlinError {
    SenlinError::form(format!("The value for {key} must be an integer: {}.", printed(value)))
}

fn wrong_type(value: &Value, types: &str) -> SenlinError {
    SenlinError::form(format!("{} is not of type {types}", printed(value)))
}

pub(super) fn unacceptable(value: &Value, key: &str) -> SenlinError {
    let shown = value.as_str().map_or_else(|| printed(value), str::to_owned);
    SenlinError::form(format!("Value '{shown}' is not acceptable for field '{key}'."))
}

#[cfg(test)]
mod tests;
