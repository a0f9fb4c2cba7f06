//! Load-balancing policies: make the nodes of a cluster members of a service with one address.

use serde_json::{Map, Value};

use super::kinds::{InvalidPolicy, PolicyKind, PolicyRules, PolicyVersion, Since, Support};
use crate::spec::{Property, Schema};

/// The load-balancing policy type.
pub const KIND: PolicyKind = PolicyKind {
    name: "senlin.policy.loadbalance",
    versions: &[
        PolicyVersion { number: "1.0", support: &[Since(Support::Supported, "2016.04")] },
        PolicyVersion { number: "1.1", support: &[Since(Support::Supported, "2018.01")] },
        PolicyVersion { number: "1.2", support: &[Since(Support::Supported, "2020.02")] },
        PolicyVersion { number: "1.3", support: &[Since(Support::Supported, "2020.03")] },
    ],
    priority: 500,
    singleton: true,
    profile_types: Some(&["simulated.node"]),
    schema: SCHEMA,
    check: Some(check),
};

const PROTOCOLS: &[&str] = &["HTTP", "HTTPS", "TCP"];

const SCHEMA: Schema = Schema(&[
    ("pool", Property::map("The pool of members that serve requests.", POOL)),
    ("vip", Property::map("The virtual IP address (VIP) of the load balancer.", VIP)),
    ("health_monitor", Property::map("The health monitor of the members.", HEALTH_MONITOR)),
    (
        "lb_status_timeout",
        Property::integer("Seconds to wait for the load balancer to be ready.").default_int(300),
    ),
    ("loadbalancer", Property::string("The id of an existing load balancer.")),
    ("availability_zone", Property::string("The availability zone of the load balancer.")),
    ("flavor_id", Property::string("The id of the load balancer's flavor.")),
]);

const POOL: Schema = Schema(&[
    ("protocol", Property::string("The protocol of the members.").allowed(PROTOCOLS).default_text("HTTP")),
    ("protocol_port", Property::integer("The port of the members.").default_int(80)),
    ("subnet", Property::string("The subnet of the members.").required()),
    (
        "lb_method",
        Property::string("The load-balancing algorithm.")
            .allowed(&["ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP"])
            .default_text("ROUND_ROBIN"),
    ),
    ("admin_state_up", Property::boolean("Whether it is enabled.").default_flag(true)),
    ("session_persistence", Property::map("Session persistence.", SESSION_PERSISTENCE).default_empty()),
    ("id", Property::string("The id of an existing pool.")),
]);

const SESSION_PERSISTENCE: Schema = Schema(&[
    (
        "type",
        Property::string("The type of session persistence.").allowed(&[
            "SOURCE_IP",
            "HTTP_COOKIE",
            "APP_COOKIE",
            "NONE",
        ]),
    ),
    ("cookie_name", Property::string("The name of the cookie, for APP_COOKIE.")),
]);

const VIP: Schema = Schema(&[
    ("subnet", Property::string("The subnet of the VIP.")),
    ("network", Property::string("The network of the VIP.")),
    ("address", Property::string("The IP address of the VIP.")),
    (
        "connection_limit",
        Property::integer("The maximum number of connections per second; -1 means unlimited.")
            .default_int(-1),
    ),
    ("protocol", Property::string("The protocol of the clients.").allowed(PROTOCOLS).default_text("HTTP")),
    ("protocol_port", Property::integer("The port of the VIP.").default_int(80)),
    ("admin_state_up", Property::boolean("Whether it is enabled.").default_flag(true)),
]);

const HEALTH_MONITOR: Schema = Schema(&[
    (
        "type",
        Property::string("The type of the health check.")
            .allowed(&["PING", "TCP", "HTTP", "HTTPS"])
            .default_text("PING"),
    ),
    ("delay", Property::integer("Milliseconds between two health checks.").default_int(10)),
    ("timeout", Property::integer("Milliseconds after which a health check fails.").default_int(5)),
    (
        "max_retries",
        Property::integer("The number of failed health checks after which a member is unhealthy.")
            .default_int(3),
    ),
    ("admin_state_up", Property::boolean("Whether it is enabled.").default_flag(true)),
    (
        "http_method",
        Property::string("The HTTP method, for HTTP and HTTPS.").allowed(&["GET", "POST", "PUT", "DELETE"]),
    ),
    ("url_path", Property::string("The URL path, for HTTP and HTTPS.")),
    ("expected_codes", Property::string("The status codes of a healthy member, for HTTP and HTTPS.")),
    ("id", Property::string("The id of an existing health monitor.")),
]);

fn check(properties: &Map<String, Value>, _: PolicyRules) -> Result<(), InvalidPolicy> {
    let Some(vip) = properties.get("vip") else { return Ok(()) };
    let given = |name| vip.get(name).and_then(Value::as_str).is_some_and(|value| !value.is_empty());
    if given("subnet") || given("network") {
        return Ok(());
    }
    Err(InvalidPolicy::Invalid("At least one of VIP Subnet or Network must be defined.".to_owned()))
}
