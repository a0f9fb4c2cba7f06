//! The Service by which the API server calls the webhook.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The port if none is given.
const DEFAULT_PORT: u16 = 443;

/// A Service: `namespace/name`, or `namespace/name:port`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct WebhookService {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) port: u16,
}

impl FromStr for WebhookService {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a Service: write namespace/name or namespace/name:port");
        let (namespace, rest) = text.split_once('/').ok_or_else(wrong)?;
        let (name, port) = match rest.split_once(':') {
            Some((name, port)) => (name, port.parse().map_err(|_| wrong())?),
            None => (rest, DEFAULT_PORT),
        };
        if namespace.is_empty() || name.is_empty() || name.contains('/') || port == 0 {
            return Err(wrong());
        }
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned(), port })
    }
}

impl TryFrom<String> for WebhookService {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<WebhookService> for String {
    fn from(WebhookService { namespace, name, port }: WebhookService) -> Self {
        format!("{namespace}/{name}:{port}")
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("a/b", Some("a/b:443"))]
    #[case("a/b:8443", Some("a/b:8443"))]
    #[case("b", None)]
    #[case("a/", None)]
    #[case("/b", None)]
    #[case("a/b/c", None)]
    #[case("a/b:x", None)]
    #[case("a/b:0", None)]
    fn a_service_has_a_namespace_and_a_name(#[case] text: &str, #[case] read: Option<&str>) {
        let service = text.parse::<WebhookService>().ok();
        assert_eq!(service.map(String::from).as_deref(), read);
    }
}
