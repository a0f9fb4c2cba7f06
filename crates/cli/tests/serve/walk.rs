//! Every method over both protocols with every kind of caller, compared with the table of authorization.

use std::collections::HashMap;

use muster_api::access::{self, AccessTarget, Case, Verb};
use muster_api::auth::hash;
use muster_api::error::ACTION_HEADER;
use muster_proto::descriptor;
use muster_proto::rest::{METHODS, Method, Rule};
use muster_testkit::eventually;
use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, MapKey, ReflectMessage as _, Value as Field};
use reqwest::{Response, header};
use rstest::rstest;
use serde_json::{Value, json};

use crate::fake_python::{of_framework, python};
use crate::server::{Server, TIMEOUT, cluster};

/// A kind of caller, which is also its token. The admin comes last: it may stop the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    Anonymous,
    OtherProject,
    Reader,
    Member,
    Admin,
}

const CALLERS: [Caller; 5] =
    [Caller::Anonymous, Caller::OtherProject, Caller::Reader, Caller::Member, Caller::Admin];

impl Caller {
    fn token(self) -> Option<String> {
        (self != Self::Anonymous).then(|| format!("{self:?}"))
    }

    fn entry(self) -> String {
        let (project, role) = match self {
            Self::OtherProject => ("other", "member"),
            Self::Reader => ("demo", "reader"),
            Self::Anonymous | Self::Member => ("demo", "member"),
            Self::Admin => ("ops", "admin"),
        };
        let (name, sha256) = (format!("{self:?}"), hash(&format!("{self:?}")));
        format!(
            "[[token]]\nname = '{name}'\nproject = '{project}'\nroles = ['{role}']\nsha256 = '{sha256}'\n"
        )
    }
}

/// Returns the status with which a caller is refused; `None` if the caller is admitted, whatever the answer then is.
fn refusal_status(case: &Case, caller: Caller) -> Option<u16> {
    match (caller, case.verb, case.subject) {
        (Caller::Anonymous, ..) => Some(401),
        (Caller::Admin, ..)
        | (_, _, AccessTarget::Anyone)
        | (_, Verb::See, AccessTarget::Clusters | AccessTarget::Actions | AccessTarget::Apps | AccessTarget::ComputeTemplates | AccessTarget::ImageTemplates | AccessTarget::Jobs)
        // Objects without a project: a member of any project may access them if the server allows it at all.
        | (Caller::OtherProject | Caller::Member, _, AccessTarget::Frameworks) => None,
        (_, Verb::Administer, _)
        | (_, _, AccessTarget::Server)
        | (Caller::Reader, Verb::Change | Verb::SeeSecrets, _) => Some(403),
        (Caller::OtherProject, ..) => Some(404),
        (Caller::Reader | Caller::Member, ..) => None,
    }
}

/// The kind of cluster that the calls are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Simulated nodes, on a development server.
    Simulated,
    /// Processes, on a server outside of development mode; clusters have none, so that none is left behind.
    Local,
}

/// Returns true if a method, as it is called here, decides what local processes execute. Every method that changes something
/// must be listed.
fn decides_local_code(method: &Method, case: &Case) -> bool {
    match method.grpc_path.rsplit('/').next().unwrap_or_default() {
        "CreateCluster"
        | "UpdateCluster"
        | "InstallFramework"
        | "UpgradeFramework"
        | "RemoveFramework"
        | "CreateImageTemplate"
        | "DeleteImageTemplate"
        | "SubmitJob"
        | "StopJob" => true,
        "DeleteCluster"
        | "PreviewUpdate"
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

/// Like [`refusal_status`], for a kind of cluster: code of local processes is for admins only.
fn refusal_status_at(place: Place, method: &Method, case: &Case, caller: Caller) -> Option<u16> {
    let is_for_admins = place == Place::Local && decides_local_code(method, case);
    match refusal_status(case, caller) {
        None if is_for_admins && caller != Caller::Admin => Some(403),
        out => out,
    }
}

async fn server(place: Place) -> Server {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("tokens.toml");
    let entries: String =
        CALLERS.iter().filter(|caller| caller.token().is_some()).map(|caller| caller.entry()).collect();
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

    /// The field that an update changes; on the local provider one that processes receive.
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

    /// Returns a cluster without nodes.
    fn cluster(self, name: &str) -> Value {
        let mut cluster = cluster(name, 0);
        if self == Self::Local {
            cluster["profile"] = self.profile().into();
            cluster["profile_properties"] = json!({"command": ["sleep", "1"]});
        }
        cluster
    }
}

/// The target of a call: a separate cluster, so that calls do not affect each other.
struct Target {
    place: Place,
    name: String,
    cluster: String,
    action: String,
    /// The id of an app, if the method is about apps.
    app: String,
}

impl Target {
    async fn new(server: &mut Server, place: Place, method: &Method, name: String) -> Self {
        server.token = Caller::Admin.token();
        let (cluster, wait_for) = match place {
            // Updates cannot change what processes without a framework execute. This Python exits at once.
            Place::Local if is_update(method) => (of_framework("dask", &name, &python(server)), "accepted"),
            _ if is_of_kuberay(method) => (of_framework("ray", &name, &python(server)), "accepted"),
            // Simulated nodes have no jobs.
            _ if is_of_jobs(method) => (Place::Local.cluster(&name), "reached"),
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
        if is_of_jobs(method) {
            server.post("/namespaces/demo/jobs", job(&name, &name)).await;
        }
        let mut app = String::new();
        if is_of_apps(method) {
            let registered = server.post("/namespaces/demo/apps", command(place, &name)).await;
            registered["id"].as_str().expect("an id").clone_into(&mut app);
        }
        Self { place, name, cluster: made["id"].as_str().expect("an id").to_owned(), action, app }
    }

    /// Returns the id that a method needs.
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
            Some("UpdateCluster" | "PreviewUpdate") => {
                json!({self.place.changed(): {"a": "b"}, "wait_for": "accepted"})
            }
            Some("ScaleCluster") => json!({"replicas": self.place.workers()}),
            Some("SignalAction") => json!({"signal": "cancel"}),
            Some("RegisterApp") => command(self.place, &format!("{}-new", self.name)),
            Some("AttachApp" | "DetachApp") => json!({"app": self.name}),
            Some("CreateComputeTemplate") => template(&format!("{}-new", self.name)),
            Some("CreateImageTemplate") => image(&format!("{}-new", self.name)),
            Some("SubmitJob") => job(&format!("{}-new", self.name), &self.name),
            _ => json!({}),
        }
    }

    /// Returns the gRPC request with its fields filled.
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
        if method.request.ends_with("SubmitJobRequest") {
            let mut job = made("muster.v1alpha2.Job");
            job.set_field_by_name("name", text(&format!("{}-new", self.name)));
            job.set_field_by_name("cluster", text(&self.name));
            job.set_field_by_name("command", Field::List(vec![text("true")]));
            fields.push(("job", Field::Message(job)));
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

/// An app that is a command which the server cannot observe; it has a lease instead.
fn command(place: Place, name: &str) -> Value {
    let provider = place.profile().split('.').next().expect("a provider");
    json!({"app": name, "provider": provider, "process": {"pid": 1, "bootId": "another"}})
}

/// Returns true if a method is about apps.
fn is_of_apps(method: &Method) -> bool {
    method.grpc_path.contains("AppService")
}

/// Returns true if a method is about jobs.
fn is_of_jobs(method: &Method) -> bool {
    method.grpc_path.contains("JobService")
}

/// A job that ends at once.
fn job(name: &str, cluster: &str) -> Value {
    json!({"job": {"name": name, "cluster": cluster, "command": ["true"]}})
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
    method.grpc_path.ends_with("/UpdateCluster") || method.grpc_path.ends_with("/PreviewUpdate")
}

/// Returns true if a method is about clusters as existing KubeRay clients see them.
fn is_of_kuberay(method: &Method) -> bool {
    method.grpc_path.starts_with("/proto.ClusterService/")
}

fn made(message: &str) -> DynamicMessage {
    DynamicMessage::new(descriptor::message(message).expect("a message of this API"))
}

/// Returns every method with every caller; the method that stops the server is last.
fn calls() -> impl Iterator<Item = (&'static Method, &'static Case, Caller)> {
    let case = |method: &Method| {
        access::of(method.grpc_path).unwrap_or_else(|| panic!("{} has no case", method.grpc_path))
    };
    let calls = METHODS.iter().flat_map(|method| CALLERS.map(|caller| (method, caller)));
    let (last, others): (Vec<_>, Vec<_>) = calls
        .map(|(method, caller)| (method, case(method), caller))
        .partition(|(_, case, caller)| case.verb == Verb::Administer && *caller == Caller::Admin);
    assert_eq!(last.len(), 1, "more than one method stops the server: only one can be tried");
    others.into_iter().chain(last)
}

#[rstest]
#[tokio::test]
async fn over_http_callers_may_do_exactly_what_the_table_allows(
    #[values(Place::Simulated, Place::Local)] place: Place,
) {
    let mut server = server(place).await;
    for (number, (method, case, caller)) in calls().enumerate() {
        for (way, rule) in method.rules.iter().enumerate() {
            let target = Target::new(&mut server, place, method, format!("c{number}-{way}")).await;
            if stops_the_server(method, caller) {
                wait_for_jobs(&mut server).await;
            }
            server.token = caller.token();
            let path = target.path(method, rule);
            let body = (rule.verb != reqwest::Method::GET).then(|| target.body(method));
            let response = server.call_at(rule.verb.clone(), &path, body).await;
            let status = response.status().as_u16();
            let why = format!("{caller:?}: {} {path} ({case:?}): {status}", rule.verb);
            let out = Some(status).filter(|status| matches!(status, 401 | 403 | 404));
            assert_eq!(out, refusal_status_at(place, method, case, caller), "{why}");
            assert!(status < 500, "{why}");
            let is_list = matches!(
                case.subject,
                AccessTarget::Clusters
                    | AccessTarget::Actions
                    | AccessTarget::ComputeTemplates
                    | AccessTarget::ImageTemplates
                    | AccessTarget::Jobs
            );
            if out.is_none() && is_list {
                let seen = first_of(method, response).await;
                assert_eq!(seen, caller != Caller::OtherProject, "{why}");
            }
        }
    }
    server.wait_for_end().await;
}

/// Returns true if this call stops the server; no calls follow it.
fn stops_the_server(method: &Method, caller: Caller) -> bool {
    method.grpc_path.ends_with("/Shutdown") && caller == Caller::Admin
}

/// Waits until no job runs: its command would run on in the folder of the test.
async fn wait_for_jobs(server: &mut Server) {
    server.token = Caller::Admin.token();
    let server = &*server;
    eventually("all jobs end", TIMEOUT, async || {
        let open = server.get("/jobs?open=true").await;
        if open["jobs"].as_array().is_none_or(Vec::is_empty) { Ok(()) } else { Err(open) }
    })
    .await;
}

/// Returns true if a list or watch has any object.
async fn first_of(method: &Method, mut response: Response) -> bool {
    if method.streaming {
        let first = response.chunk().await.expect("the watch responds").expect("a message");
        return String::from_utf8_lossy(&first).contains("ADDED");
    }
    let list: Value = response.json().await.expect("JSON");
    let array = ["clusters", "actions", "computeTemplates", "imageTemplates", "jobs", "rows"]
        .into_iter()
        .find_map(|key| list.get(key));
    assert!(array.is_some() || !method.is_list, "a list has its array: {list}");
    array.and_then(Value::as_array).is_some_and(|array| !array.is_empty())
}

#[rstest]
#[tokio::test]
async fn over_grpc_callers_may_do_exactly_what_the_table_allows(
    #[values(Place::Simulated, Place::Local)] place: Place,
) {
    let mut server = server(place).await;
    let client = reqwest::Client::builder().http2_prior_knowledge().build().expect("a client");
    for (number, (method, case, caller)) in calls().enumerate() {
        let target = Target::new(&mut server, place, method, format!("c{number}")).await;
        if stops_the_server(method, caller) {
            wait_for_jobs(&mut server).await;
        }
        let message = target.message(method).encode_to_vec();
        let length = u32::try_from(message.len()).expect("a short message").to_be_bytes();
        let frame: Vec<u8> = [0].into_iter().chain(length).chain(message).collect();
        let mut request = client
            .post(format!("{}{}", server.grpc, method.grpc_path))
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers")
            .body(frame);
        if let Some(token) = caller.token() {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.expect("the server answers");
        // A refusal has its status in the headers, an answer in the trailers.
        let code = response.headers().get("grpc-status").map_or("0", |code| code.to_str().expect("a code"));
        let out = match code {
            "16" => Some(401),
            "7" => Some(403),
            "5" => Some(404),
            _ => None,
        };
        let printed = response.headers().get("grpc-message");
        let why = format!("{caller:?}: {} ({case:?}): {code} {printed:?}", method.grpc_path);
        assert_eq!(out, refusal_status_at(place, method, case, caller), "{why}");
        assert!(!matches!(code, "2" | "12" | "13" | "14"), "{why}");
    }
    server.wait_for_end().await;
}
