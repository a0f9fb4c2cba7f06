//! Generates the table of methods, and for each service a function that returns its REST endpoints.

use std::collections::BTreeMap;

use crate::rules::{Method, Rule, Service};

/// Returns the generated code.
pub(crate) fn rest(services: &[Service]) -> String {
    let mut code = String::from(
        "/// Every method, with the ways to it over HTTP.\npub static METHODS: &[Method] = &[\n",
    );
    for method in services.iter().flat_map(|service| &service.methods) {
        code.push_str(&table_row(method));
    }
    code.push_str("];\n");
    let mut modules: BTreeMap<&str, String> = BTreeMap::new();
    let mut index = 0;
    for service in services {
        modules.entry(&service.module).or_default().push_str(&endpoints(service, index));
        index += service.methods.len();
    }
    for (module, endpoints) in modules {
        let about = format!("/// The endpoints of the services of [`crate::{module}`].");
        code.extend(["\n", &about, "\npub mod ", module, " {\n", &endpoints, "}\n"]);
    }
    code
}

fn table_row(method: &Method) -> String {
    let rules: String = method.rules.iter().map(rule).collect();
    let unknown_names = if method.refuses_unknown_names { "Refused" } else { "Ignored" };
    format!(
        "Method {{ grpc_path: {:?}, request: {:?}, unknown_names: UnknownNames::{unknown_names}, streaming: {}, \
         is_list: {}, rules: &[{rules}] }},\n",
        method.grpc_path,
        method.request,
        method.streaming,
        method.list.is_some(),
    )
}

fn rule(rule: &Rule) -> String {
    let body = match rule.body.as_str() {
        "" => "Body::None".to_owned(),
        "*" => "Body::Whole".to_owned(),
        field => format!("Body::Field({field:?})"),
    };
    format!("Rule {{ verb: http::Method::{}, path: {:?}, body: {body} }}, ", rule.verb, rule.path)
}

fn endpoints(service: &Service, first: usize) -> String {
    let (snake, name) = (snake(&service.name), &service.name);
    let mut code = format!(
        "\n/// The endpoints of `{name}`.\npub fn {snake}<S>(service: &super::Arc<S>) -> Vec<super::Endpoint>\n\
         where S: crate::{module}::{snake}_server::{name} {{\nvec![\n",
        module = service.module,
    );
    for (offset, method) in service.methods.iter().enumerate() {
        let call = format!(
            "{{ let service = super::Arc::clone(service); move |request: super::Request<{}>| {{ \
             let service = super::Arc::clone(&service); \
             async move {{ service.{}(request).await }} }} }}",
            method.request_type,
            self::snake(&method.name)
        );
        let method_ref = format!("&super::METHODS[{}]", first + offset);
        let row = match &method.list {
            _ if method.streaming => format!("super::streaming({method_ref}, {call}),\n"),
            Some((field, json)) => {
                let is_empty = format!("|answer: &{}| answer.{field}.is_empty()", method.response_type);
                format!("super::unary({method_ref}, {call}, Some(({json:?}, {is_empty}))),\n")
            }
            None => format!("super::unary({method_ref}, {call}, None),\n"),
        };
        code.push_str(&row);
    }
    code.push_str("]\n}\n");
    code
}

/// Converts names of services and methods to modules and functions, as prost does.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    let letters: Vec<char> = name.chars().collect();
    for (at, letter) in letters.iter().enumerate() {
        let after_small = at > 0 && letters[at - 1].is_lowercase();
        let before_small = at > 0 && letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        if letter.is_uppercase() && (after_small || before_small) {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}
