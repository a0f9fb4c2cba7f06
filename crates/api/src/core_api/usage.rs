//! The gRPC service of usage.

use muster_core::limits::Activity;
use muster_core::node::Node;
use muster_core::time::Timestamp;
use muster_core::usage::{UsageGrouping, UsageSum};
use muster_proto::v1alpha2::usage_service_server::UsageService;
use muster_proto::v1alpha2::{
    ClusterActivity, GetActivityRequest, GetAllUsageRequest, GetNodeUsageRequest, GetNodeUsageResponse,
    GetUsageRequest, NodeUsage, Usage, UsageRow,
};
use muster_proto::wkt;
use muster_service::ports::node_meter::NodeUsage as Used;
use muster_service::usage::{UsageReport, UsageRequest};
use tonic::{Request, Response, Status, async_trait};

use super::find::{named, optional_variant};
use super::{CoreApi, access, convert, create};
use crate::access::Access;
use crate::error::ApiError;

#[async_trait]
impl UsageService for CoreApi {
    async fn get_usage(&self, request: Request<GetUsageRequest>) -> Result<Response<Usage>, Status> {
        let access = access(&request)?;
        let GetUsageRequest { namespace, since, until, by } = request.into_inner();
        let namespace = Some(create::namespace(&namespace, "")?);
        self.summed(&access, UsageRequest { namespace, since: moment(since), until: moment(until) }, &by)
            .await
    }

    async fn get_all_usage(&self, request: Request<GetAllUsageRequest>) -> Result<Response<Usage>, Status> {
        let access = access(&request)?;
        let GetAllUsageRequest { since, until, by } = request.into_inner();
        let request = UsageRequest { namespace: None, since: moment(since), until: moment(until) };
        self.summed(&access, request, &by).await
    }

    async fn get_node_usage(
        &self,
        request: Request<GetNodeUsageRequest>,
    ) -> Result<Response<GetNodeUsageResponse>, Status> {
        let access = access(&request)?;
        let request = request.into_inner();
        let cluster = self.find(&access, &named!(request)).await?;
        let (nodes, usage) = self.service.node_usage(&cluster).await.map_err(ApiError::from)?;
        let nodes = nodes.into_iter().map(|node| measured(usage.get(&node.id), node)).collect();
        Ok(Response::new(GetNodeUsageResponse { nodes }))
    }

    async fn get_activity(
        &self,
        request: Request<GetActivityRequest>,
    ) -> Result<Response<ClusterActivity>, Status> {
        let access = access(&request)?;
        let request = request.into_inner();
        let cluster = self.find(&access, &named!(request)).await?;
        let (state, idle_since) = match self.service.activity(&cluster).await.map_err(ApiError::from)? {
            Activity::Busy => ("busy", None),
            Activity::IdleSince(since) => ("idle", Some(convert::moment(since))),
            Activity::Unknown => ("unknown", None),
        };
        Ok(Response::new(ClusterActivity { state: state.to_owned(), idle_since }))
    }
}

impl CoreApi {
    async fn summed(
        &self,
        access: &Access,
        request: UsageRequest,
        by: &str,
    ) -> Result<Response<Usage>, Status> {
        let by = optional_variant("by", by)?.unwrap_or(UsageGrouping::User);
        let report = self.service.usage(access, request, by).await.map_err(ApiError::from)?;
        let UsageReport { window, complete_since, rows, total } = report;
        Ok(Response::new(Usage {
            since: Some(convert::moment(window.since)),
            until: Some(convert::moment(window.until)),
            complete_since: Some(convert::moment(complete_since)),
            by: by.as_str().to_owned(),
            rows: rows.into_iter().map(|(name, sum)| row(name, &sum)).collect(),
            total: Some(row(String::new(), &total)),
        }))
    }
}

fn measured(used: Option<&Used>, node: Node) -> NodeUsage {
    let number = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
    NodeUsage {
        name: node.name,
        id: node.id.to_string(),
        role: node.role.as_str().to_owned(),
        group_name: node.group.unwrap_or_default(),
        state: node.status.as_str().to_owned(),
        cpu_millis: used.map(|used| number(used.cpu.millis())),
        memory_bytes: used.map(|used| number(used.memory.bytes())),
    }
}

fn moment(given: Option<wkt::Timestamp>) -> Option<Timestamp> {
    given.map(|at| Timestamp::from_micros(at.micros()))
}

fn row(name: String, sum: &UsageSum) -> UsageRow {
    UsageRow {
        name,
        clusters: i64::try_from(sum.clusters).unwrap_or(i64::MAX),
        cluster_hours: sum.cluster_hours(),
        node_hours: sum.node_hours(),
        core_hours: sum.core_hours(),
        memory_gib_hours: sum.memory_gib_hours(),
        gpu_hours: sum.gpu_hours(),
    }
}
