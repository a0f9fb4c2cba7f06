//! The messages between tests and the testbed: one line with a JSON object in each direction.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kubernetes::Component;

/// A request to the testbed: a line like `{"want":"kubernetes"}`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TestbedRequest {
    /// Requests a part by its name, such as `kubernetes`.
    Want(String),
    /// Gives an order to a running component.
    Do(Order, Component),
}

/// The orders to a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Freeze (SIGSTOP).
    Freeze,
    /// Continue (SIGCONT).
    Thaw,
    /// Kill (SIGKILL).
    Kill,
    /// Start again with the same ports and data.
    Start,
    /// Do nothing; the response contains the pid.
    Identify,
}

/// The response of the testbed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestbedAnswer {
    /// The part runs at these addresses.
    Have(Value),
    /// The part is not available on this machine, for this reason; tests that need it are skipped.
    Missing(String),
    /// The part failed; tests that need it fail.
    Failed(String),
}

impl TestbedAnswer {
    /// A response with `parts`.
    pub(crate) fn have(parts: &impl Serialize) -> Self {
        match serde_json::to_value(parts) {
            Ok(value) => Self::Have(value),
            Err(error) => Self::Failed(format!("the testbed cannot describe what it has: {error}")),
        }
    }
}

/// The location of the shared Kubernetes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KubernetesParts {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) log_dir: PathBuf,
}

/// The location of the shared PostgreSQL. Without a folder, programs of the `PATH` are used.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PostgresParts {
    pub(crate) url: String,
    #[serde(default)]
    pub(crate) bin_dir: Option<PathBuf>,
}

/// The pid of a component that executed an order; `None` if it was killed.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct ProcessParts {
    pub(crate) pid: Option<u32>,
}

/// The path of an operator's log.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OperatorParts {
    pub(crate) log: PathBuf,
}

/// The path of a program.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ProgramParts {
    pub(crate) program: PathBuf,
}

/// The interpreter of a Python environment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PythonParts {
    pub(crate) python: PathBuf,
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::Operator;

    #[rstest]
    #[case(TestbedRequest::Want("kubernetes".into()), r#"{"want":"kubernetes"}"#)]
    #[case(TestbedRequest::Do(Order::Kill, Component::ApiServer), r#"{"do":["kill","api_server"]}"#)]
    #[case(TestbedRequest::Do(Order::Identify, Component::ApiServer), r#"{"do":["identify","api_server"]}"#)]
    #[case(
        TestbedRequest::Do(Order::Freeze, Component::Operator(Operator::KubeRay)),
        r#"{"do":["freeze",{"operator":"kuberay"}]}"#
    )]
    fn a_request_is_a_line(#[case] request: TestbedRequest, #[case] line: &str) {
        assert_eq!(serde_json::to_string(&request).unwrap(), line);
        assert_eq!(serde_json::from_str::<TestbedRequest>(line).unwrap(), request);
    }
}
