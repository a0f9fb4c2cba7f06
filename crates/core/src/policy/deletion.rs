//! Deletion policies: choose the members that are removed when a cluster shrinks, and how they are removed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::kinds::{InvalidPolicy, PolicyKind, PolicyRules, PolicyVersion, Since, Support, settings};
use super::{Policy, check_wait};
use crate::candidates::Criterion;
use crate::spec::{Property, Schema};
use crate::string_enum::string_enum;

/// The deletion policy type.
pub const KIND: PolicyKind = PolicyKind {
    name: "senlin.policy.deletion",
    versions: &[
        PolicyVersion { number: "1.0", support: &[Since(Support::Supported, "2016.04")] },
        PolicyVersion { number: "1.1", support: &[Since(Support::Supported, "2018.01")] },
    ],
    priority: 400,
    singleton: true,
    profile_types: None,
    schema: SCHEMA,
    check: Some(check),
};

const SCHEMA: Schema = Schema(&[
    (
        "criteria",
        Property::string("The order in which active nodes are removed.")
            .allowed(&["OLDEST_FIRST", "OLDEST_PROFILE_FIRST", "YOUNGEST_FIRST", "RANDOM"])
            .default_text("RANDOM"),
    ),
    (
        "destroy_after_deletion",
        Property::boolean("Whether removed nodes are deleted; otherwise they become orphans.")
            .default_flag(true),
    ),
    (
        "grace_period",
        Property::integer("Seconds between the request and the deletion of the nodes.").default_int(0),
    ),
    (
        "reduce_desired_capacity",
        Property::boolean("Whether the desired capacity is reduced by the number of removed nodes.")
            .default_flag(true),
    ),
    ("hooks", Property::map("The lifecycle hook that is called before a node is deleted.", HOOKS)),
]);

const HOOKS: Schema = Schema(&[
    ("type", Property::string("The type of the hook.").allowed(&["zaqar", "webhook"]).default_text("zaqar")),
    ("params", Property::map("The parameters of the hook.", PARAMS).filled()),
    (
        "timeout",
        Property::integer("Seconds to wait for a confirmation before the nodes are deleted without one.")
            .default_int(0),
    ),
]);

const PARAMS: Schema = Schema(&[
    ("queue", Property::string("The message queue, for zaqar.").default_text("")),
    ("url", Property::string("The URL of the POST request, for webhook.").default_text("")),
]);

string_enum! {
    /// The delivery of a lifecycle hook.
    HookType, "hook type" {
        /// A message in a queue.
        Zaqar = "zaqar",
        /// A POST to a URL.
        Webhook = "webhook",
    }
}

/// A lifecycle hook, as it is stored in an action's data under `hooks`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hooks {
    /// The delivery.
    #[serde(rename = "type")]
    pub kind: HookType,
    /// The parameters of the delivery.
    pub params: HookParams,
    /// Seconds after which the nodes are removed without a confirmation.
    pub timeout: i64,
}

/// The receiver of a lifecycle hook.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookParams {
    /// The queue, for zaqar.
    #[serde(default)]
    pub queue: String,
    /// The URL, for webhook.
    #[serde(default)]
    pub url: String,
}

/// The settings of a deletion policy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct DeletionPolicySettings {
    /// The order in which nodes are removed.
    pub criteria: Criterion,
    /// True if nodes are deleted, false if they become orphans; none if the request decides.
    #[serde(skip)]
    pub destroy_after_deletion: Option<bool>,
    /// The grace period before the removal, in seconds.
    pub grace_period: i64,
    /// True if the desired size shrinks, too.
    pub reduce_desired_capacity: bool,
    /// The lifecycle hook.
    pub hooks: Option<Hooks>,
}

impl DeletionPolicySettings {
    /// The settings of a policy.
    pub fn from_policy(policy: &Policy) -> Result<Self, String> {
        let mut settings: Self = policy.settings()?;
        let given = policy.spec.get("properties").and_then(Value::as_object);
        let given = |name| given.and_then(|given| given.get(name)).filter(|value| !value.is_null());
        if given("destroy_after_deletion").is_some() {
            let properties = policy.properties();
            settings.destroy_after_deletion =
                properties.and_then(|read| read.get("destroy_after_deletion").and_then(Value::as_bool));
        }
        // An empty map means that there is no hook, although the schema fills in defaults.
        if given("hooks").and_then(Value::as_object).is_some_and(Map::is_empty) {
            settings.hooks = None;
        }
        Ok(settings)
    }
}

fn check(properties: &Map<String, Value>, _: PolicyRules) -> Result<(), InvalidPolicy> {
    let DeletionPolicySettings { grace_period, hooks, .. } = settings(properties)?;
    check_wait("'grace_period'", grace_period)?;
    if let Some(hooks) = &hooks {
        check_wait("'timeout' for 'hooks'", hooks.timeout)?;
    }
    match hooks {
        Some(hooks) if hooks.kind == HookType::Webhook && hooks.params.url.is_empty() => {
            Err(InvalidPolicy::Invalid("'hooks' of type 'webhook' need a 'url' in 'params'".to_owned()))
        }
        _ => Ok(()),
    }
}
