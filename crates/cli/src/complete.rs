//! Shell completion of values that the server knows: clusters, nodes, namespaces, shapes, actions.
//!
//! The shell is blocked until the candidates are known. So no server is started for them, everything has to finish
//! within a second, and an error yields no candidates.

use std::ffi::OsStr;
use std::time::Duration;

use clap::{Arg, Command, CommandFactory as _};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use muster_core::cluster::ClusterStatus;
use muster_proto::v1alpha2::{
    ListActionsRequest, ListComputeTemplatesRequest, ListImageTemplatesRequest, ListJobsRequest,
    ListNodesRequest, ListShapesRequest,
};

use crate::Args;
use crate::commands::select::{FilterFlags, list};
use crate::commands::{AmongFlags, DEFAULT_NAMESPACE};
use crate::connect::{Client, ServerFlags};
use crate::contexts::Contexts;
use crate::failure::Failure;

/// Time limit of one completion.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// Largest number of candidates that are offered from a list of unlimited length.
const MAX_CANDIDATES: i32 = 50;

/// Completes names of clusters in the namespace of the command.
pub(crate) fn clusters() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        complete(current, &async |client, words| {
            let namespace = words.namespace(client).await?;
            let all = FilterFlags::of_labels(Vec::new());
            let clusters = list(client, Some(&namespace), &AmongFlags::default(), &all).await?;
            Ok(clusters.into_iter().map(|cluster| (cluster.name, cluster.state)).collect())
        })
    })
}

/// Completes namespaces: those with clusters, and the caller's own.
pub(crate) fn namespaces() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        complete(current, &async |client, _| {
            let all = FilterFlags::of_labels(Vec::new());
            let clusters = list(client, None, &AmongFlags::default(), &all).await?;
            let mut names: Vec<String> = clusters.into_iter().map(|cluster| cluster.namespace).collect();
            names.push(client.own_namespace().await?);
            names.sort();
            names.dedup();
            Ok(names.into_iter().map(|name| (name, String::new())).collect())
        })
    })
}

/// Completes nodes of the cluster on the command line, and `head` and `worker`.
pub(crate) fn nodes() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        complete(current, &async |client, words| {
            let namespace = words.namespace(client).await?;
            let name = words.first.clone().unwrap_or_default();
            let request = ListNodesRequest { namespace, name, ..ListNodesRequest::default() };
            let nodes = crate::commands::nodes::all(client, request).await?;
            let groups = [("head", "the head"), ("worker", "all workers")];
            let groups = groups.map(|(word, what)| (word.to_owned(), what.to_owned()));
            Ok(groups.into_iter().chain(nodes.into_iter().map(|node| (node.name, node.state))).collect())
        })
    })
}

/// Completes names of shapes and compute templates.
pub(crate) fn shapes() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        complete(current, &async |client, words| {
            let namespace = words.namespace(client).await?;
            let request = ListComputeTemplatesRequest { namespace, ..ListComputeTemplatesRequest::default() };
            let templates = client.templates().list_compute_templates(request).await?.into_inner();
            let shapes = client.admin().list_shapes(ListShapesRequest {}).await?.into_inner();
            let names = templates.compute_templates.into_iter().map(|template| template.name);
            let names = names.chain(shapes.shapes.into_iter().map(|shape| shape.name));
            Ok(names.map(|name| (name, String::new())).collect())
        })
    })
}

/// Completes ids of the latest actions.
pub(crate) fn actions() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        complete(current, &async |client, _| {
            let request = ListActionsRequest {
                sort_by: "-created_at".to_owned(),
                page_size: MAX_CANDIDATES,
                ..ListActionsRequest::default()
            };
            let actions = client.actions().list_actions(request).await?.into_inner().actions;
            let what = |action: &str, status: &str| format!("{action} {status}");
            Ok(actions
                .into_iter()
                .map(|a| {
                    let help = what(&a.action, &a.status);
                    (a.id, help)
                })
                .collect())
        })
    })
}

/// Completes names of jobs in the namespace of the command.
pub(crate) fn jobs() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        complete(current, &async |client, words| {
            let namespace = words.namespace(client).await?;
            let request =
                ListJobsRequest { namespace, page_size: MAX_CANDIDATES, ..ListJobsRequest::default() };
            let jobs = client.jobs().list_jobs(request).await?.into_inner().jobs;
            Ok(jobs.into_iter().map(|job| (job.name, job.state)).collect())
        })
    })
}

/// Completes names of images in the namespace of the command.
pub(crate) fn images() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        complete(current, &async |client, words| {
            let namespace = words.namespace(client).await?;
            let request = ListImageTemplatesRequest { namespace, ..ListImageTemplatesRequest::default() };
            let images = client.images().list_image_templates(request).await?.into_inner();
            Ok(images.image_templates.into_iter().map(|image| (image.name, image.state)).collect())
        })
    })
}

/// Completes one of these words.
pub(crate) fn words(words: impl IntoIterator<Item = String>) -> ArgValueCompleter {
    let words: Vec<String> = words.into_iter().collect();
    ArgValueCompleter::new(move |current: &OsStr| {
        candidates(current, words.iter().map(|word| (word.clone(), String::new())).collect())
    })
}

/// Completes states of clusters, as `muster get` shows them.
pub(crate) fn states() -> ArgValueCompleter {
    words(ClusterStatus::ALL.iter().map(ToString::to_string))
}

/// Completes names of contexts.
pub(crate) fn contexts() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let contexts = Contexts::read().unwrap_or_default();
        candidates(current, contexts.all.into_iter().map(|context| (context.name, context.server)).collect())
    })
}

/// Returns the candidates that begin with the current word, with their help texts.
fn candidates(current: &OsStr, found: Vec<(String, String)>) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let fits = found.into_iter().filter(|(name, _)| name.starts_with(&*current));
    fits.map(|(name, help)| {
        let help = (!help.is_empty()).then(|| help.into());
        CompletionCandidate::new(name).help(help)
    })
    .collect()
}

/// Runs a query against the server of the command line, if one answers in time.
fn complete(
    current: &OsStr,
    question: &impl AsyncFn(&mut Client, &TypedWords) -> Result<Vec<(String, String)>, Failure>,
) -> Vec<CompletionCandidate> {
    let words = TypedWords::parse(std::env::args().skip_while(|word| word != "--").skip(2));
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let found = runtime.block_on(async {
        let answer = async {
            let mut client = words.server.find_now().await.ok()??;
            question(&mut client, &words).await.ok()
        };
        tokio::time::timeout(TIME_LIMIT, answer).await.ok().flatten()
    });
    // A pending DNS lookup would block the exit.
    runtime.shutdown_background();
    candidates(current, found.unwrap_or_default())
}

/// Server, namespace and cluster of the command line that is being completed.
#[derive(Debug)]
struct TypedWords {
    server: ServerFlags,
    namespace: Option<String>,
    /// The first positional argument.
    first: Option<String>,
}

impl TypedWords {
    fn parse(words: impl Iterator<Item = String>) -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let (mut server, mut token, mut data_dir) =
            (variable("MUSTER_SERVER"), variable("MUSTER_TOKEN"), variable("MUSTER_DATA_DIR"));
        let mut namespace = variable("MUSTER_NAMESPACE");
        let program = Args::command();
        let (mut first, mut command) = (None, Some(&program));
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            let (flag, given) = match word.split_once('=') {
                Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
                None => (word.clone(), None),
            };
            let known = match flag.as_str() {
                "--server" => Some(&mut server),
                "--token" => Some(&mut token),
                "--data-dir" => Some(&mut data_dir),
                "--namespace" | "-n" => Some(&mut namespace),
                _ => None,
            };
            if let Some(value) = known {
                *value = given.or_else(|| words.next());
            } else if flag.starts_with('-') {
                words.next_if(|_| {
                    given.is_none() && command.is_some_and(|command| takes_value(command, &flag))
                });
            } else if let Some(next) =
                command.filter(|_| first.is_none()).and_then(|of| of.find_subcommand(&word))
            {
                command = Some(next);
            } else if first.is_none() {
                first = Some(word);
            }
        }
        let server = ServerFlags::from_values(server, token, data_dir);
        Self { server, namespace: namespace.filter(|namespace| !namespace.is_empty()), first }
    }

    async fn namespace(&self, client: &mut Client) -> Result<String, Failure> {
        match &self.namespace {
            Some(given) => Ok(given.clone()),
            None => Ok(client.own_namespace().await.unwrap_or_else(|_| DEFAULT_NAMESPACE.to_owned())),
        }
    }
}

/// Returns true if a flag of a command has its value in the next word.
fn takes_value(command: &Command, flag: &str) -> bool {
    let is_meant = |argument: &&Arg| match flag.strip_prefix("--") {
        Some(long) => {
            argument.get_long() == Some(long)
                || argument.get_all_aliases().is_some_and(|aliases| aliases.contains(&long))
        }
        None => argument
            .get_short()
            .is_some_and(|short| flag.strip_prefix('-') == Some(short.encode_utf8(&mut [0; 4]))),
    };
    command.get_arguments().find(is_meant).is_some_and(|argument| argument.get_action().takes_values())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_and_cluster_are_read_from_the_line() {
        let words = |line: &str| TypedWords::parse(line.split_whitespace().map(str::to_owned));
        let read = words("logs -n demo fred --node");
        assert_eq!((read.namespace.as_deref(), read.first.as_deref()), (Some("demo"), Some("fred")));
        assert_eq!(words("logs fred --tail 5 --node").first.as_deref(), Some("fred"));
        assert_eq!(words("delete --namespace=a ").namespace.as_deref(), Some("a"));
        assert_eq!(words("logs --tail 5 -f fred --node").first.as_deref(), Some("fred"));
        assert_eq!(words("job submit --name x fred").first.as_deref(), Some("fred"));
    }
}
