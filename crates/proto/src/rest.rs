//! REST without a web framework: the HTTP routes of each method, and calls with JSON as input and output.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{BoxStream, Stream, StreamExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tonic::metadata::MetadataMap;
use tonic::{Extensions, Request, Response, Status};

use crate::explain;

include!(concat!(env!("OUT_DIR"), "/rest.rs"));

/// The part of a request that the body fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// The request has no body.
    None,
    /// The body is the whole request.
    Whole,
    /// The body is this field of the request, named as in the `.proto` file.
    Field(&'static str),
}

/// One HTTP route of a method.
#[derive(Debug)]
pub struct Rule {
    /// The verb.
    pub verb: http::Method,
    /// The path, with `{field}` where a segment fills a field.
    pub path: &'static str,
    /// The part of the request that the body fills.
    pub body: Body,
}

impl Rule {
    /// The fields that segments of the path fill, in order.
    pub fn parameters(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
    }
}

/// The handling of unknown fields and parameters by an API package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownNames {
    /// The request is refused: a misspelt field must not look as if it had been applied.
    Refused,
    /// Unknown names have no effect, as clients of existing servers expect.
    Ignored,
}

/// A method of a service.
#[derive(Debug)]
pub struct Method {
    /// The path of the method in gRPC: `/package.Service/Method`.
    pub grpc_path: &'static str,
    /// The full name of the request message.
    pub request: &'static str,
    /// The handling of names that the request message does not have.
    pub unknown_names: UnknownNames,
    /// True if the method responds with a stream.
    pub streaming: bool,
    /// True if the method responds with a list.
    pub is_list: bool,
    /// The HTTP routes of the method.
    pub rules: &'static [Rule],
}

/// The input of a method.
#[derive(Debug, Default)]
pub struct RestCall {
    /// The metadata: HTTP headers.
    pub metadata: MetadataMap,
    /// The extensions that middleware has added to the request, such as the caller.
    pub extensions: Extensions,
    /// The request as a JSON object; see [`crate::bind`].
    pub request: Map<String, Value>,
}

/// The response of a method.
#[derive(Debug)]
pub struct Answer {
    /// The metadata: HTTP headers.
    pub metadata: MetadataMap,
    /// The response messages.
    pub content: Content,
}

/// The messages of a response, as JSON.
pub enum Content {
    /// One message.
    One(Vec<u8>),
    /// A stream of messages.
    Stream(BoxStream<'static, Result<Vec<u8>, Status>>),
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(json) => write!(f, "One({})", String::from_utf8_lossy(json)),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

type Handler = dyn Fn(RestCall) -> BoxFuture<'static, Result<Answer, Status>> + Send + Sync;

/// A method together with the service that it is called on.
#[derive(Clone)]
pub struct Endpoint {
    /// The method.
    pub method: &'static Method,
    handler: Arc<Handler>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Endpoint").field(&self.method.grpc_path).finish()
    }
}

impl Endpoint {
    /// Calls the method.
    pub async fn call(&self, call: RestCall) -> Result<Answer, Status> {
        (self.handler)(call).await
    }

    fn new<F, Fut>(method: &'static Method, handler: F) -> Self
    where
        F: Fn(RestCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Answer, Status>> + Send + 'static,
    {
        Self { method, handler: Arc::new(move |call| Box::pin(handler(call))) }
    }
}

/// The array of a list response: its JSON name, and a function that returns true if the array is empty.
type Array<A> = (&'static str, fn(&A) -> bool);

/// Builds an endpoint with one response message. JSON omits empty arrays, so an empty array of a list is added here.
fn unary<Q, A, F, Fut>(method: &'static Method, service: F, array: Option<Array<A>>) -> Endpoint
where
    Q: DeserializeOwned + Send + 'static,
    A: Serialize + Send + 'static,
    F: Fn(Request<Q>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Response<A>, Status>> + Send + 'static,
{
    let service = Arc::new(service);
    Endpoint::new(method, move |call| {
        let service = Arc::clone(&service);
        async move {
            let (metadata, answer, _) = service(typed(method, call)?).await?.into_parts();
            let mut json = json(&answer)?;
            if let Some((array, _)) = array.filter(|(_, is_empty)| is_empty(&answer)) {
                let comma = if json.as_slice() == b"{}" { "" } else { "," };
                json.splice(..1, format!("{{\"{array}\":[]{comma}").into_bytes());
            }
            Ok(Answer { metadata, content: Content::One(json) })
        }
    })
}

/// Builds an endpoint that responds with a stream.
fn streaming<Q, A, T, F, Fut>(method: &'static Method, service: F) -> Endpoint
where
    Q: DeserializeOwned + Send + 'static,
    A: Serialize + Send + 'static,
    T: Stream<Item = Result<A, Status>> + Send + 'static,
    F: Fn(Request<Q>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Response<T>, Status>> + Send + 'static,
{
    let service = Arc::new(service);
    Endpoint::new(method, move |call| {
        let service = Arc::clone(&service);
        async move {
            let (metadata, answers, _) = service(typed(method, call)?).await?.into_parts();
            let answers = answers.map(|answer| json(&answer?)).boxed();
            Ok(Answer { metadata, content: Content::Stream(answers) })
        }
    })
}

fn typed<Q: DeserializeOwned>(method: &Method, call: RestCall) -> Result<Request<Q>, Status> {
    let RestCall { metadata, extensions, request } = call;
    let request = Value::Object(request);
    let message = serde_path_to_error::deserialize(&request).map_err(|error| {
        let (path, why) = (error.path(), error.inner().to_string());
        Status::invalid_argument(explain::sentence(method.request, &request, path, &why))
    })?;
    Ok(Request::from_parts(metadata, extensions, message))
}

fn json<A: Serialize>(answer: &A) -> Result<Vec<u8>, Status> {
    serde_json::to_vec(answer).map_err(|error| Status::internal(format!("the answer has no JSON: {error}")))
}
