//! Lists clusters by flags.

use clap::Parser;
use muster_proto::v1alpha2::{
    Cluster, ListAllClustersRequest, ListClustersRequest, WhoAmIRequest, WhoAmIResponse,
};

use super::{AmongFlags, PAGE, pages};
use crate::complete;
use crate::connect::Client;
use crate::failure::Failure;

/// The fields by which a list can be ordered.
const SORTS: [&str; 4] = ["name", "created_at", "state", "framework"];

/// Flags that filter and order a list.
#[derive(Debug, Clone, Default, Parser)]
pub(crate) struct FilterFlags {
    /// List only clusters with this label, as KEY=VALUE; may be repeated
    #[arg(short = 'l', long, value_name = "KEY=VALUE", conflicts_with = "name")]
    pub(super) label: Vec<String>,
    /// List only clusters in this state, such as ACTIVE; may be repeated
    #[arg(long, value_name = "STATE", conflicts_with = "name", add = complete::states())]
    state: Vec<String>,
    /// List only your own clusters
    #[arg(long, conflicts_with = "name")]
    mine: bool,
    /// Order by `name`, `created_at`, `state` or `framework`; a leading - reverses the order
    #[arg(
        long,
        value_name = "FIELD",
        default_value = "name",
        allow_hyphen_values = true,
        add = complete::words(SORTS.map(str::to_owned)),
        conflicts_with = "name"
    )]
    sort: String,
}

impl FilterFlags {
    /// Selects clusters that have all these labels.
    pub(crate) fn of_labels(label: Vec<String>) -> Self {
        Self { label, sort: "name".to_owned(), ..Self::default() }
    }

    /// Returns true if the filter may exclude clusters.
    pub(super) fn excludes(&self) -> bool {
        !self.label.is_empty() || !self.state.is_empty() || self.mine
    }
}

/// Asks the server how it identifies the caller.
pub(crate) async fn who_am_i(client: &mut Client) -> Result<WhoAmIResponse, Failure> {
    let answer = client.retry(async |client| client.admin().who_am_i(WhoAmIRequest {}).await).await?;
    Ok(answer.into_inner())
}

/// Returns true if a cluster belongs to the caller.
pub(super) fn is_own(cluster: &Cluster, me: &WhoAmIResponse) -> bool {
    cluster.owner.as_ref().is_some_and(|owner| owner.scheme == me.scheme && owner.id == me.id)
}

/// Lists the clusters of a namespace, or of all namespaces, that the caller may see.
pub(crate) async fn list(
    client: &mut Client,
    namespace: Option<&str>,
    among: &AmongFlags,
    filter: &FilterFlags,
) -> Result<Vec<Cluster>, Failure> {
    let FilterFlags { label, state, mine, sort } = filter;
    let (framework, provider) = among.request_fields();
    let mut clusters = pages(async |page_token| {
        let Some(namespace) = namespace else {
            let request = ListAllClustersRequest {
                sort_by: sort.clone(),
                label: label.clone(),
                state: state.clone(),
                framework: framework.clone(),
                page_size: PAGE,
                page_token,
                ..ListAllClustersRequest::default()
            };
            let call = async |client: &Client| client.clusters().list_all_clusters(request.clone()).await;
            let answer = client.retry(call).await?.into_inner();
            return Ok((answer.clusters, answer.next_page_token));
        };
        let request = ListClustersRequest {
            namespace: namespace.to_owned(),
            sort_by: sort.clone(),
            label: label.clone(),
            state: state.clone(),
            framework: framework.clone(),
            page_size: PAGE,
            page_token,
            ..ListClustersRequest::default()
        };
        let answer =
            client.retry(async |client| client.clusters().list_cluster(request.clone()).await).await?;
        let answer = answer.into_inner();
        Ok((answer.clusters, answer.next_page_token))
    })
    .await?;
    clusters.retain(|cluster| provider.is_empty() || provider == cluster.provider);
    if *mine {
        let me = who_am_i(client).await?;
        clusters.retain(|cluster| is_own(cluster, &me));
    }
    Ok(clusters)
}
