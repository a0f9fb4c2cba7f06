//! Every method over both doors, by everybody: what the table of authorization says is what happens.

use std::collections::HashMap;

use muster_api::access::{self, Case, Subject, Verb};
use muster_api::auth::hash;
use muster_api::error::ACTION_HEADER;
use muster_proto::descriptor;
use muster_proto::rest::{METHODS, Method, Rule};
use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, MapKey, ReflectMessage as _, Value as Field};
use reqwest::{Response, header};
use rstest::rstest;
use serde_json::{Value, json};

use crate::server::{Server, cluster};

/// Who calls; also their token. The admin comes last: it may stop the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Person {
    Nobody,
    Stranger,
    Reader,
    Member,
    Admin,
}

const PEOPLE: [Person; 5] = [Person::Nobody, Person::Stranger, Person::Reader, Person::Member, Person::Admin];

impl Person {
    fn token(self) -> Option<String> {
        (self != Self::Nobody).then(|| format!("{self:?}"))
    }

    fn entry(self) -> String {
        let (project, role) = match self {
            Self::Stranger => ("other", "member"),
            Self::Reader => ("demo", "reader"),
            Self::Nobody | Self::Member => ("demo", "member"),
            Self::Admin => ("ops", "admin"),
        };
        let (name, sha256) = (format!("{self:?}"), hash(&format!("{self:?}")));
        format!(
            "[[token]]\nname = '{name}'\nproject = '{project}'\nroles = ['{role}']\nsha256 = '{sha256}'\n"
        )
    }
}

/// The status that keeps somebody out of a method; none lets them in, whatever it then answers.
fn kept_out(case: &Case, person: Person) -> Option<u16> {
    match (person, case.verb, case.subject) {
        (Person::Nobody, ..) => Some(401),
        (Person::Admin, ..)
        | (_, _, Subject::Anyone)
        | (_, Verb::See, Subject::Clusters | Subject::Actions | Subject::Apps | Subject::ComputeTemplates | Subject::ImageTemplates)
        // They are nobody's: a member of any project may, as far as the server allows it at all.
        | (Person::Stranger | Person::Member, _, Subject::Frameworks) => None,
        (_, Verb::Administer, _)
        | (_, _, Subject::Server)
        | (Person::Reader, Verb::Change | Verb::SeeSecrets, _) => Some(403),
        (Person::Stranger, ..) => Some(404),
        (Person::Reader | Person::Member, ..) => None,
    }
}

/// Where the clusters are that calls are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Simulated nodes, on a server for development.
    Simulated,
    /// Processes of a server as it is outside of development; there are none, so that none is left behind.
    Local,
}

/// Whether a method decides what local processes run, as it is called here. Every method that changes something has to be
/// named.
fn decides_local_code(method: &Method, case: &Case) -> bool {
    match method.grpc_path.rsplit('/').next().unwrap_or_default() {
        "CreateCluster"
        | "UpdateCluster"
        | "InstallFramework"
        | "CreateImageTemplate"
        | "DeleteImageTemplate" => true,
        "DeleteCluster"
        | "ScaleCluster"
        | "RestartHead"
        | "CancelAction"
        | "SignalAction"
        | "Shutdown"
        | "RegisterApp"
        | "RenewApp"
        | "EndApp"
        | "AttachApp"
        | "DetachApp"
        | "CreateComputeTemplate"
        | "DeleteComputeTemplate" => false,
        other => {
            assert!(
                matches!(case.verb, Verb::See | Verb::SeeSecrets),
                "does {other} decide what processes run?"
            );
            false
        }
    }
}

/// The same as [`kept_out`], at a place: what decides what local processes run is for admins.
fn kept_out_at(place: Place, method: &Method, case: &Case, person: Person) -> Option<u16> {
    let is_for_admins = place == Place::Local && decides_local_code(method, case);
    match kept_out(case, person) {
        None if is_for_admins && person != Person::Admin => Some(403),
        out => out,
    }
}

async fn server(place: Place) -> Server {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("tokens.toml");
    let entries: String =
        PEOPLE.iter().filter(|person| person.token().is_some()).map(|person| person.entry()).collect();
    std::fs::write(&file, entries).expect("a file of tokens");
    let scheme = format!("tokens:{}", file.display());
    let dev: &[&str] = if place == Place::Simulated { &["--dev"] } else { &[] };
    Server::start_in(folder, &[dev, &["--auth", &scheme]].concat()).await
}

impl Place {
    const fn profile(self) -> &'static str {
        match self {
            Self::Simulated => "simulated.node-1.0",
            Self::Local => "local.process-1.0",
        }
    }

    /// The field that an update changes: on the local provider one that processes are given.
    const fn changed(self) -> &'static str {
        match self {
            Self::Simulated => "labels",
            Self::Local => "envs",
        }
    }

    const fn workers(self) -> i32 {
        match self {
            Self::Simulated => 1,
            Self::Local => 0,
        }
    }

    /// A cluster without nodes.
    fn cluster(self, name: &str) -> Value {
        let mut cluster = cluster(name, 0);
        if self == Self::Local {
            cluster["profile"] = self.profile().into();
            cluster["profile_properties"] = json!({"command": ["sleep", "1"]});
        }
        cluster
    }
}

/// What a call is about: a cluster of its own, so that no call disturbs another.
struct Target {
    place: Place,
    name: String,
    cluster: String,
    action: String,
    /// The id of an app, where a method is about one.
    app: String,
}

impl Target {
    async fn new(server: &mut Server, place: Place, method: &Method, name: String) -> Self {
        server.token = Person::Admin.token();
        let (cluster, wait_for) = match place {
            // What processes without a framework run is not changed by an update here. This Python ends at once.
            Place::Local if is_update(method) => (of_framework("dask", &name, &python(server)), "accepted"),
            _ if is_of_kuberay(method) => (of_framework("ray", &name, &python(server)), "accepted"),
            _ => (place.cluster(&name), "reached"),
        };
        let path = format!("/namespaces/demo/clusters?wait_for={wait_for}");
        let made = server.call(reqwest::Method::POST, &path, Some(cluster)).await;
        let action = made.headers()[ACTION_HEADER].to_str().expect("an id").to_owned();
        let made: Value = made.json().await.expect("a cluster");
        if method.grpc_path.contains("ComputeTemplateService") || is_of_kuberay(method) {
            server.post("/namespaces/demo/compute_templates", template(&name)).await;
        }
        if method.grpc_path.contains("ImageTemplateService") {
            server.post("/namespaces/demo/image_templates", image(&name)).await;
        }
        let mut app = String::new();
        if is_of_apps(method) {
            let registered = server.post("/namespaces/demo/apps", command(place, &name)).await;
            registered["id"].as_str().expect("an id").clone_into(&mut app);
        }
        Self { place, name, cluster: made["id"].as_str().expect("an id").to_owned(), action, app }
    }

    /// The id that a method asks for.
    fn id(&self, method: &Method) -> &str {
        match method.grpc_path {
            path if path.contains("ActionService") => &self.action,
            path if path.contains("AppService") => &self.app,
            _ => &self.cluster,
        }
    }

    fn path(&self, method: &Method, rule: &Rule) -> String {
        let path = rule.path.replace("{namespace}", "demo").replace("{name}", &self.name);
        path.replace("{id}", self.id(method)).replace("{cluster}", &self.name)
    }

    fn body(&self, method: &Method) -> Value {
        match method.grpc_path.rsplit('/').next() {
            Some("CreateCluster") if is_of_kuberay(method) => {
                let head = json!({"computeTemplate": self.name, "rayStartParams": {"num-cpus": "1"}});
                let name = format!("{}-new", self.name);
                json!({"name": name, "namespace": "demo", "user": "ada", "clusterSpec": {"headGroupSpec": head}})
            }
            Some("CreateCluster") => self.place.cluster(&format!("{}-new", self.name)),
            Some("UpdateCluster") => json!({self.place.changed(): {"a": "b"}, "wait_for": "accepted"}),
            Some("ScaleCluster") => json!({"replicas": self.place.workers()}),
            Some("SignalAction") => json!({"signal": "cancel"}),
            Some("RegisterApp") => command(self.place, &format!("{}-new", self.name)),
            Some("AttachApp" | "DetachApp") => json!({"app": self.name}),
            Some("CreateComputeTemplate") => template(&format!("{}-new", self.name)),
            Some("CreateImageTemplate") => image(&format!("{}-new", self.name)),
            _ => json!({}),
        }
    }

    /// The same for gRPC: the fields that a request has, filled.
    fn message(&self, method: &Method) -> DynamicMessage {
        let text = |text: &str| Field::String(text.to_owned());
        let mut message = made(method.request);
        let mut fields = vec![
            ("namespace", text("demo")),
            ("name", text(&self.name)),
            ("replicas", Field::I32(self.place.workers())),
            ("signal", text("cancel")),
            ("wait_for", text("accepted")),
        ];
        if method.grpc_path.contains("ActionService") {
            fields.push(("id", text(&self.action)));
        }
        if is_of_apps(method) {
            fields.push(("id", text(&self.app)));
            if !method.grpc_path.ends_with("/ListApps") {
                fields.push(("app", text(&self.name)));
            }
            if !method.grpc_path.ends_with("/RegisterApp") && !method.grpc_path.ends_with("/ListApps") {
                fields.push(("cluster", text(&self.name)));
            }
            if method.grpc_path.ends_with("/RegisterApp") {
                let mut process = made("muster.v1alpha2.AppProcess");
                process.set_field_by_name("pid", Field::U32(1));
                fields.push(("process", Field::Message(process)));
            }
        }
        if is_of_kuberay(method) && method.request.ends_with("CreateClusterRequest") {
            let mut head = made("proto.HeadGroupSpec");
            head.set_field_by_name("compute_template", text(&self.name));
            let parameters = HashMap::from([(MapKey::String("num-cpus".to_owned()), text("1"))]);
            head.set_field_by_name("ray_start_params", Field::Map(parameters));
            let mut spec = made("proto.ClusterSpec");
            spec.set_field_by_name("head_group_spec", Field::Message(head));
            let mut cluster = made("proto.Cluster");
            cluster.set_field_by_name("name", text(&format!("{}-new", self.name)));
            cluster.set_field_by_name("namespace", text("demo"));
            cluster.set_field_by_name("user", text("ada"));
            cluster.set_field_by_name("cluster_spec", Field::Message(spec));
            fields.push(("cluster", Field::Message(cluster)));
        } else if method.request.ends_with("CreateClusterRequest") {
            let mut cluster = made("muster.v1alpha2.Cluster");
            cluster.set_field_by_name("name", text(&format!("{}-new", self.name)));
            cluster.set_field_by_name("profile", text(self.place.profile()));
            fields.push(("cluster", Field::Message(cluster)));
        }
        if method.request.ends_with("CreateComputeTemplateRequest") {
            let package = method.request.rsplit_once('.').expect("a package").0;
            let mut template = made(&format!("{package}.ComputeTemplate"));
            template.set_field_by_name("namespace", text("demo"));
            template.set_field_by_name("name", text(&format!("{}-new", self.name)));
            template.set_field_by_name("cpu", Field::U32(1));
            template.set_field_by_name("memory", Field::U32(1));
            fields.push(("compute_template", Field::Message(template)));
        }
        if method.request.ends_with("CreateImageTemplateRequest") {
            let mut image = made("muster.v1alpha2.ImageTemplate");
            image.set_field_by_name("name", text(&format!("{}-new", self.name)));
            image.set_field_by_name("custom_commands", text("exit 1"));
            fields.push(("image_template", Field::Message(image)));
        }
        if method.request.ends_with("UpdateClusterRequest") {
            let mut mask = made("google.protobuf.FieldMask");
            mask.set_field_by_name("paths", Field::List(vec![text(self.place.changed())]));
            fields.push(("update_mask", Field::Message(mask)));
        }
        for (name, value) in fields {
            if message.descriptor().get_field_by_name(name).is_some() {
                message.set_field_by_name(name, value);
            }
        }
        message
    }
}

/// A command that the server cannot see, which has a lease instead.
fn command(place: Place, name: &str) -> Value {
    let provider = place.profile().split('.').next().expect("a provider");
    json!({"app": name, "provider": provider, "process": {"pid": 1, "bootId": "another"}})
}

/// Whether a method is about apps.
fn is_of_apps(method: &Method) -> bool {
    method.grpc_path.contains("AppService")
}

/// A compute template.
fn template(name: &str) -> Value {
    json!({"name": name, "namespace": "demo", "cpu": 1, "memory": 1})
}

/// An image template whose build fails at once.
fn image(name: &str) -> Value {
    json!({"name": name, "namespace": "demo", "customCommands": "exit 1"})
}

fn is_update(method: &Method) -> bool {
    method.grpc_path.ends_with("/UpdateCluster")
}

/// A program that claims to be a Python with every framework. Another process writes it: a file that is open for writing
/// cannot be run.
pub(crate) fn python(server: &Server) -> String {
    let file = server.data().with_file_name("python");
    let write = r#"test -e "$1" || { printf '#!/bin/sh\necho 9.9\n' > "$1" && chmod +x "$1"; }"#;
    let written = std::process::Command::new("sh").args(["-c", write, "sh"]).arg(&file).status();
    assert!(written.expect("sh runs").success());
    file.to_string_lossy().into_owned()
}

/// A cluster of a framework in this Python.
pub(crate) fn of_framework(framework: &str, name: &str, python: &str) -> Value {
    let groups = json!([{"group_name": "default", "replicas": 0, "image": python}]);
    let spec = json!({"head_group_spec": {"image": python}, "worker_group_spec": groups});
    json!({"name": name, "framework": framework, "cluster_spec": spec})
}

/// Whether a method is about clusters as existing KubeRay clients know them.
fn is_of_kuberay(method: &Method) -> bool {
    method.grpc_path.starts_with("/proto.ClusterService/")
}

fn made(message: &str) -> DynamicMessage {
    DynamicMessage::new(descriptor::message(message).expect("a message of ours"))
}

/// Every method with somebody who calls it; what stops the server stands at the end.
fn calls() -> impl Iterator<Item = (&'static Method, &'static Case, Person)> {
    let case = |method: &Method| {
        access::of(method.grpc_path).unwrap_or_else(|| panic!("{} has no case", method.grpc_path))
    };
    let everybody = METHODS.iter().flat_map(|method| PEOPLE.map(|person| (method, person)));
    let (last, others): (Vec<_>, Vec<_>) = everybody
        .map(|(method, person)| (method, case(method), person))
        .partition(|(_, case, person)| case.verb == Verb::Administer && *person == Person::Admin);
    assert_eq!(last.len(), 1, "more than one method stops the server: only one can be tried");
    others.into_iter().chain(last)
}

#[rstest]
#[tokio::test]
async fn over_http_everybody_may_do_what_the_table_says(
    #[values(Place::Simulated, Place::Local)] place: Place,
) {
    let mut server = server(place).await;
    for (number, (method, case, person)) in calls().enumerate() {
        for (way, rule) in method.rules.iter().enumerate() {
            let target = Target::new(&mut server, place, method, format!("c{number}-{way}")).await;
            server.token = person.token();
            let path = target.path(method, rule);
            let body = (rule.verb != reqwest::Method::GET).then(|| target.body(method));
            let response = server.call_at(rule.verb.clone(), &path, body).await;
            let status = response.status().as_u16();
            let why = format!("{person:?}: {} {path} ({case:?}): {status}", rule.verb);
            let out = Some(status).filter(|status| matches!(status, 401 | 403 | 404));
            assert_eq!(out, kept_out_at(place, method, case, person), "{why}");
            assert!(status < 500, "{why}");
            let is_list = matches!(
                case.subject,
                Subject::Clusters | Subject::Actions | Subject::ComputeTemplates | Subject::ImageTemplates
            );
            if out.is_none() && is_list {
                let seen = first_of(method, response).await;
                assert_eq!(seen, person != Person::Stranger, "{why}");
            }
        }
    }
}

/// Whether a list or watch shows anything.
async fn first_of(method: &Method, mut response: Response) -> bool {
    if method.streaming {
        let first = response.chunk().await.expect("the watch tells").expect("a message");
        return String::from_utf8_lossy(&first).contains("ADDED");
    }
    let list: Value = response.json().await.expect("JSON");
    let array = ["clusters", "actions", "computeTemplates", "imageTemplates"]
        .into_iter()
        .find_map(|key| list.get(key));
    !array.and_then(Value::as_array).expect("a list has its array").is_empty()
}

#[rstest]
#[tokio::test]
async fn over_grpc_everybody_may_do_what_the_table_says(
    #[values(Place::Simulated, Place::Local)] place: Place,
) {
    let mut server = server(place).await;
    let client = reqwest::Client::builder().http2_prior_knowledge().build().expect("a client");
    for (number, (method, case, person)) in calls().enumerate() {
        let target = Target::new(&mut server, place, method, format!("c{number}")).await;
        let message = target.message(method).encode_to_vec();
        let length = u32::try_from(message.len()).expect("a short message").to_be_bytes();
        let frame: Vec<u8> = [0].into_iter().chain(length).chain(message).collect();
        let mut request = client
            .post(format!("{}{}", server.grpc, method.grpc_path))
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers")
            .body(frame);
        if let Some(token) = person.token() {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.expect("the server answers");
        // A refusal has its status in front; an answer has it behind the messages.
        let code = response.headers().get("grpc-status").map_or("0", |code| code.to_str().expect("a code"));
        let out = match code {
            "16" => Some(401),
            "7" => Some(403),
            "5" => Some(404),
            _ => None,
        };
        let said = response.headers().get("grpc-message");
        let why = format!("{person:?}: {} ({case:?}): {code} {said:?}", method.grpc_path);
        assert_eq!(out, kept_out_at(place, method, case, person), "{why}");
        assert!(!matches!(code, "2" | "12" | "13" | "14"), "{why}");
    }
}
