//! Reads services and their HTTP rules from the descriptors.

use prost_reflect::{
    DescriptorPool, DynamicMessage, ExtensionDescriptor, Kind, MethodDescriptor, ServiceDescriptor, Value,
};

/// A service with HTTP rules.
pub(crate) struct Service {
    /// The Rust module of the package that declares the service.
    pub(crate) module: String,
    pub(crate) name: String,
    pub(crate) methods: Vec<Method>,
}

/// A gRPC method with its HTTP rules.
pub(crate) struct Method {
    pub(crate) name: String,
    pub(crate) grpc_path: String,
    pub(crate) request: String,
    pub(crate) request_type: String,
    pub(crate) response_type: String,
    pub(crate) refuses_unknown_names: bool,
    pub(crate) streaming: bool,
    /// The array of a list response, which is written even if empty: its name in the message and in JSON.
    pub(crate) list: Option<(String, String)>,
    pub(crate) rules: Vec<Rule>,
}

/// One HTTP route of a method.
pub(crate) struct Rule {
    pub(crate) verb: &'static str,
    pub(crate) path: String,
    pub(crate) body: String,
}

const VERBS: [(&str, &str); 5] =
    [("get", "GET"), ("put", "PUT"), ("post", "POST"), ("delete", "DELETE"), ("patch", "PATCH")];

/// The packages whose methods ignore unknown fields in requests, as clients of existing servers expect.
const LENIENT_PACKAGES: [&str; 1] = ["proto"];

/// Returns all services, in the order of the files.
pub(crate) fn services(pool: &DescriptorPool) -> Result<Vec<Service>, String> {
    let http = pool.get_extension_by_name("google.api.http").ok_or("google.api.http is not declared")?;
    pool.services().map(|service| read_service(&service, &http)).collect()
}

fn read_service(service: &ServiceDescriptor, http: &ExtensionDescriptor) -> Result<Service, String> {
    let methods = service.methods().map(|method| read_method(&method, http)).collect::<Result<_, _>>()?;
    let module = module(service.package_name()).to_owned();
    Ok(Service { module, name: service.name().to_owned(), methods })
}

fn read_method(method: &MethodDescriptor, http: &ExtensionDescriptor) -> Result<Method, String> {
    let options = method.options();
    if !options.has_extension(http) {
        return Err(format!("{} has no HTTP rule", method.full_name()));
    }
    if method.is_client_streaming() {
        return Err(format!("{} takes a stream, which REST cannot give", method.full_name()));
    }
    let mut rules = Vec::new();
    if let Value::Message(rule) = options.get_extension(http).as_ref() {
        read_rule(rule, &mut rules).map_err(|why| format!("{}: {why}", method.full_name()))?;
    }
    let output = method.output();
    let list = output
        .fields()
        .find(|field| field.is_list() && matches!(field.kind(), Kind::Message(_)))
        .filter(|_| method.name().starts_with("List"))
        .map(|field| (field.name().to_owned(), field.json_name().to_owned()));
    Ok(Method {
        name: method.name().to_owned(),
        grpc_path: format!("/{}/{}", method.parent_service().full_name(), method.name()),
        request: method.input().full_name().to_owned(),
        request_type: rust_type(method.input().full_name()),
        response_type: rust_type(output.full_name()),
        refuses_unknown_names: !LENIENT_PACKAGES.contains(&method.parent_file().package_name()),
        streaming: method.is_server_streaming(),
        list,
        rules,
    })
}

fn read_rule(rule: &DynamicMessage, rules: &mut Vec<Rule>) -> Result<(), String> {
    let text = |name: &str| rule.get_field_by_name(name).and_then(|value| value.as_str().map(str::to_owned));
    let (verb, path) = VERBS
        .iter()
        .find(|(field, _)| rule.has_field_by_name(field))
        .and_then(|(field, verb)| Some((*verb, text(field)?)))
        .ok_or("a rule has no verb")?;
    rules.push(Rule { verb, path, body: text("body").unwrap_or_default() });
    let more = rule.get_field_by_name("additional_bindings");
    for binding in more.iter().filter_map(|value| value.as_list()).flatten() {
        read_rule(binding.as_message().ok_or("a binding is no rule")?, rules)?;
    }
    Ok(())
}

/// Returns the Rust module of a package. Package `proto` has the messages of `/apis/v1`.
fn module(package: &str) -> &str {
    match package {
        "google.protobuf" => "wkt",
        "proto" => "v1",
        package => package.trim_start_matches("muster."),
    }
}

/// Returns the path of a message in the generated code.
fn rust_type(full_name: &str) -> String {
    let (package, name) = full_name.rsplit_once('.').unwrap_or(("", full_name));
    format!("crate::{}::{name}", module(package))
}
