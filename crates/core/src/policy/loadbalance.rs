//! Load-balancing policies: make the nodes of a cluster members of a service with one address.

use serde_json::{Map, Value};

use super::kinds::{InvalidPolicy, PolicyKind, PolicyRules, Since, Support, Version};
use crate::spec::{Property, Schema};

/// The load-balancing policy type.
pub const KIND: PolicyKind = PolicyKind {
    name: "senlin.policy.loadbalance",
    versions: &[
        Version { number: "1.0", support: &[Since(Support::Supported, "2016.04")] },
        Version { number: "1.1", support: &[Since(Support::Supported, "2018.01")] },
        Version { number: "1.2", support: &[Since(Support::Supported, "2020.02")] },
        Version { number: "1.3", support: &[Since(Support::Supported, "2020.03")] },
    ],
    priority: 500,
    singleton: true,
    profile_types: Some(&["simulated.node"]),
    schema: SCHEMA,
    check: Some(check),
};

const PROTOCOLS: &[&str] = &["HTTP", "HTTPS", "TCP"];

const SCHEMA: Schema = Schema(&[
    ("pool", Property::map("The members of the service.", POOL)),
    ("vip", Property::map("The address of the service.", VIP)),
    ("health_monitor", Property::map("How the members are looked at.", HEALTH_MONITOR)),
    (
        "lb_status_timeout",
        Property::integer("Seconds within which the balancer has to be ready.").default_int(300),
    ),
    ("loadbalancer", Property::string("A balancer that is there already.")),
    ("availability_zone", Property::string("The zone in which the balancer is made.")),
    ("flavor_id", Property::string("The flavor of the balancer.")),
]);

const POOL: Schema = Schema(&[
    ("protocol", Property::string("What the members speak.").allowed(PROTOCOLS).default_text("HTTP")),
    ("protocol_port", Property::integer("The members' port.").default_int(80)),
    ("subnet", Property::string("The network in which the members are reached.").required()),
    (
        "lb_method",
        Property::string("How a member is chosen.")
            .allowed(&["ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP"])
            .default_text("ROUND_ROBIN"),
    ),
    ("admin_state_up", Property::boolean("Whether it is in use.").default_flag(true)),
    (
        "session_persistence",
        Property::map("Who stays with which member.", SESSION_PERSISTENCE).default_empty(),
    ),
    ("id", Property::string("A pool that is there already.")),
]);

const SESSION_PERSISTENCE: Schema = Schema(&[
    (
        "type",
        Property::string("What a client is known by.").allowed(&[
            "SOURCE_IP",
            "HTTP_COOKIE",
            "APP_COOKIE",
            "NONE",
        ]),
    ),
    ("cookie_name", Property::string("The cookie, for APP_COOKIE.")),
]);

const VIP: Schema = Schema(&[
    ("subnet", Property::string("The subnet of the address.")),
    ("network", Property::string("The network of the address.")),
    ("address", Property::string("The address itself.")),
    ("connection_limit", Property::integer("The most connections a second; -1 is no bound.").default_int(-1)),
    ("protocol", Property::string("What clients speak.").allowed(PROTOCOLS).default_text("HTTP")),
    ("protocol_port", Property::integer("The port that clients use.").default_int(80)),
    ("admin_state_up", Property::boolean("Whether it is in use.").default_flag(true)),
]);

const HEALTH_MONITOR: Schema = Schema(&[
    (
        "type",
        Property::string("What the members are asked with.")
            .allowed(&["PING", "TCP", "HTTP", "HTTPS"])
            .default_text("PING"),
    ),
    ("delay", Property::integer("Milliseconds between two looks.").default_int(10)),
    ("timeout", Property::integer("Milliseconds until a look has failed.").default_int(5)),
    ("max_retries", Property::integer("How many failures a member may have.").default_int(3)),
    ("admin_state_up", Property::boolean("Whether it is in use.").default_flag(true)),
    (
        "http_method",
        Property::string("The method, for HTTP and HTTPS.").allowed(&["GET", "POST", "PUT", "DELETE"]),
    ),
    ("url_path", Property::string("The path, for HTTP and HTTPS.")),
    ("expected_codes", Property::string("The codes of a member that is well, for HTTP and HTTPS.")),
    ("id", Property::string("A monitor that is there already.")),
]);

fn check(properties: &Map<String, Value>, _: PolicyRules) -> Result<(), InvalidPolicy> {
    let Some(vip) = properties.get("vip") else { return Ok(()) };
    let given = |name| vip.get(name).and_then(Value::as_str).is_some_and(|value| !value.is_empty());
    if given("subnet") || given("network") {
        return Ok(());
    }
    Err(InvalidPolicy::Invalid("At least one of VIP Subnet or Network must be defined.".to_owned()))
}
