//! The gRPC service of jobs.

use futures::StreamExt as _;
use futures::stream::BoxStream;
use muster_core::job::{Job as Row, JobSpec};
use muster_core::principal::Door;
use muster_core::time::TimeSpan;
use muster_core::unknown_fields::UnknownFields;
use muster_proto::v1alpha2::job_service_server::JobService;
use muster_proto::v1alpha2::{
    CreateClusterRequest, GetJobLogsRequest, GetJobRequest, Job, JobLogChunk, ListAllJobsRequest,
    ListAllJobsResponse, ListJobsRequest, ListJobsResponse, StopJobRequest, SubmitJobRequest,
};
use muster_service::find::ClusterRef;
use muster_service::jobs::NewJob;
use muster_service::lists::{Authorized, Direction, JobQuery, JobSort, PageRequest};
use muster_service::ports::LogQuery;
use muster_service::{Caller, Recipe, ServiceError};
use tonic::{Request, Response, Status, async_trait};

use super::find::optional;
use super::pages::{self, page_request};
use super::{CoreApi, GrpcResult, access, convert, create, limits, recipe};
use crate::error::ApiError;
use crate::streams::until_closed;

/// The longest time that a request may wait for the end of a job.
const LONGEST_WAIT: TimeSpan = TimeSpan::from_secs(60);

/// The sort keys of jobs. Without one, the newest jobs come first.
const SORTS: &[(&str, JobSort)] = &[("created_at", JobSort::CreatedAt), ("name", JobSort::Name)];

/// Builds the query of a list request, of one namespace or of all.
macro_rules! query {
    ($request:expr) => {
        JobQuery {
            cluster: optional(&$request.cluster),
            open: $request.open,
            name_prefix: optional(&$request.name_prefix),
            sort: if $request.sort_by.is_empty() {
                vec![(JobSort::CreatedAt, Direction::Descending)]
            } else {
                pages::parse_sort(&$request.sort_by, SORTS)?
            },
            with_total: $request.with_total,
            ..JobQuery::default()
        }
    };
}

impl CoreApi {
    async fn page_of_jobs(
        &self,
        query: &Authorized<JobQuery>,
        page: PageRequest<'_>,
    ) -> Result<(Vec<Job>, String, Option<i32>), ApiError> {
        let page = self.service.list_page(query, page).await?;
        Ok((page.items.into_iter().map(shown).collect(), page.next_token, pages::total(page.total)))
    }
}

#[async_trait]
impl JobService for CoreApi {
    async fn submit_job(&self, request: Request<SubmitJobRequest>) -> GrpcResult<Job> {
        let access = access(&request)?;
        let SubmitJobRequest { job, namespace, new_cluster } = request.into_inner();
        let given = job.unwrap_or_default();
        let namespace = create::namespace(&namespace, &given.namespace)?;
        self.service.authorize_namespace(&access, &namespace).map_err(ApiError::from)?;
        recipe::check_variables(&given.envs)?;
        let (mut name, cluster_name) = (given.name.clone(), given.cluster.clone());
        let spec = spec(given);
        let submitted = match new_cluster {
            Some(_) if !cluster_name.is_empty() => {
                let message = "cluster and new_cluster are given: leave one of them out";
                return Err(ApiError::invalid(message).into());
            }
            None => {
                if cluster_name.is_empty() {
                    return Err(ApiError::invalid("cluster is empty: name one, or give new_cluster").into());
                }
                let named = ClusterRef {
                    namespace: &namespace,
                    name: &cluster_name,
                    framework: "",
                    provider: "",
                    id: None,
                };
                let cluster = self.find(&access, &named).await?;
                self.service.submit_job(&access, &cluster, NewJob { name, spec }).await
            }
            Some(given) => {
                check_new_cluster(&given)?;
                if name.is_empty() {
                    name = self.service.new_job_name();
                }
                let mut cluster = given.cluster.unwrap_or_default();
                if cluster.name.is_empty() {
                    cluster.name.clone_from(&name);
                }
                create::namespace(&namespace, &given.namespace)?;
                create::namespace(&namespace, &cluster.namespace)?;
                let names = self.resolve_profile(&access, &namespace, &mut cluster).await?;
                self.configure(&namespace, &given.stored_config, given.config, &mut cluster).await?;
                let create::New { cluster, profile } =
                    Box::pin(self.resolved_cluster(&access, namespace, cluster, names)).await?;
                let caller = Caller {
                    principal: access.principal().clone(),
                    door: Door::Core,
                    reason: String::new(),
                    request: None,
                };
                let new = NewJob { name, spec };
                let recipe = Recipe::New(profile);
                Box::pin(self.service.submit_job_with_cluster(&access, &caller, cluster, recipe, new)).await
            }
        };
        Ok(Response::new(shown(submitted.map_err(ApiError::from)?)))
    }

    async fn get_job(&self, request: Request<GetJobRequest>) -> GrpcResult<Job> {
        let access = access(&request)?;
        let GetJobRequest { name, namespace, wait_timeout } = request.into_inner();
        let mut job = self.service.find_job(&access, &namespace, &name).await.map_err(ApiError::from)?;
        if let Some(given) = wait_timeout {
            let at_most = limits::between("wait_timeout", given, TimeSpan::default(), LONGEST_WAIT)?;
            job = self.service.wait_for_job(job, at_most).await.map_err(ApiError::from)?;
        }
        let last_lines = self.service.last_lines(&job).await;
        Ok(Response::new(Job { last_lines, ..shown(job) }))
    }

    async fn list_jobs(&self, request: Request<ListJobsRequest>) -> GrpcResult<ListJobsResponse> {
        let access = access(&request)?;
        let request = request.into_inner();
        let namespace = Some(create::namespace(&request.namespace, "")?);
        let query = JobQuery { namespace, ..query!(request) };
        let (jobs, next_page_token, total_size) =
            self.page_of_jobs(&access.visible(query), page_request!(request)).await?;
        Ok(Response::new(ListJobsResponse { jobs, next_page_token, total_size }))
    }

    async fn list_all_jobs(&self, request: Request<ListAllJobsRequest>) -> GrpcResult<ListAllJobsResponse> {
        let access = access(&request)?;
        let request = request.into_inner();
        let query = query!(request);
        let (jobs, next_page_token, total_size) =
            self.page_of_jobs(&access.visible(query), page_request!(request)).await?;
        Ok(Response::new(ListAllJobsResponse { jobs, next_page_token, total_size }))
    }

    type GetJobLogsStream = BoxStream<'static, Result<JobLogChunk, Status>>;

    async fn get_job_logs(&self, request: Request<GetJobLogsRequest>) -> GrpcResult<Self::GetJobLogsStream> {
        let access = access(&request)?;
        let GetJobLogsRequest { name, namespace, follow, tail } = request.into_inner();
        let job = self.service.find_job(&access, &namespace, &name).await.map_err(ApiError::from)?;
        let tail = tail.map(|lines| {
            let why = || ApiError::invalid(format!("tail is {lines}: must be 0 or greater"));
            usize::try_from(lines).map_err(|_| why())
        });
        let query = LogQuery { tail: tail.transpose()?, follow, ..LogQuery::default() };
        let open = self.streams.open(access.principal())?;
        let lines = self.service.job_logs(job, query).await.map_err(ApiError::from)?;
        let chunks = lines.map(|text| match text {
            Ok(text) => Ok(JobLogChunk { text }),
            Err(error) => Err(Status::from(ApiError::from(ServiceError::from(error)))),
        });
        let message = "the server is stopping: the job and its log continue at the next server";
        Ok(Response::new(open.count(until_closed(self.service.closing(), chunks, message))))
    }

    async fn stop_job(&self, request: Request<StopJobRequest>) -> GrpcResult<Job> {
        let access = access(&request)?;
        let StopJobRequest { name, namespace } = request.into_inner();
        let job = self.service.find_job(&access, &namespace, &name).await.map_err(ApiError::from)?;
        let stopped = self.service.stop_job(&access, job).await.map_err(ApiError::from)?;
        Ok(Response::new(shown(stopped)))
    }
}

/// Refuses settings of a new cluster that would have no effect on the cluster of a job.
fn check_new_cluster(given: &CreateClusterRequest) -> Result<(), ApiError> {
    let CreateClusterRequest { wait_for, wait_timeout, request_id, across_rollouts, validate_only, .. } =
        given;
    let is_of_app =
        given.cluster.as_ref().is_some_and(|cluster| !cluster.app.is_empty() || cluster.ephemeral);
    let refusal = if is_of_app || *across_rollouts {
        "app, ephemeral or across_rollouts: the cluster ends with its job; leave them out"
    } else if *validate_only {
        "validate_only: not supported for jobs; leave it out"
    } else if !wait_for.is_empty() || wait_timeout.is_some() {
        "wait_for or wait_timeout: a submission does not wait for the cluster; leave them out, and wait for the job"
    } else if !request_id.is_empty() {
        "request_id: not supported, since a repeated submission submits another job; leave it out, and name the job, \
         because each name is accepted once"
    } else {
        return Ok(());
    };
    Err(ApiError::invalid(format!("new_cluster has {refusal}")))
}

fn spec(given: Job) -> JobSpec {
    let Job { command, working_dir, envs, .. } = given;
    JobSpec { command, working_dir, environment: envs, unknown: UnknownFields::default() }
}

/// Converts a job without its environment variables: they may be secret, and readers can see jobs.
fn shown(row: Row) -> Job {
    let (state, outputs) = (row.state(), row.outputs());
    Job {
        name: row.name,
        namespace: row.namespace,
        cluster: row.cluster_name,
        command: row.spec.command,
        working_dir: row.spec.working_dir,
        envs: std::collections::BTreeMap::new(),
        id: row.id.to_string(),
        state: state.as_str().to_owned(),
        status_reason: row.task.status_reason,
        exit_code: outputs.exit_code,
        last_lines: outputs.last_lines,
        cluster_id: row.cluster_id.to_string(),
        owns_cluster: row.owns_cluster,
        provider: row.instance.provider().to_owned(),
        user: row.owner.name,
        created_at: Some(convert::moment(row.created_at)),
        started_at: outputs.started_at.map(convert::moment),
        ended_at: row.task.ended_at.map(convert::moment),
    }
}

#[cfg(test)]
mod tests {
    use muster_proto::v1alpha2::Cluster;
    use muster_proto::wkt::Duration;
    use rstest::rstest;

    use super::*;

    fn of_cluster(cluster: Cluster) -> CreateClusterRequest {
        CreateClusterRequest { cluster: Some(cluster), ..CreateClusterRequest::default() }
    }

    #[rstest]
    #[case(of_cluster(Cluster::default()), None)]
    #[case(of_cluster(Cluster { app: "a".to_owned(), ..Cluster::default() }), Some("app, "))]
    #[case(of_cluster(Cluster { ephemeral: true, ..Cluster::default() }), Some("ephemeral"))]
    #[case(CreateClusterRequest { across_rollouts: true, ..Default::default() }, Some("across_rollouts"))]
    #[case(CreateClusterRequest { validate_only: true, ..Default::default() }, Some("validate_only"))]
    #[case(CreateClusterRequest { wait_for: "reached".to_owned(), ..Default::default() }, Some("wait_for"))]
    #[case(CreateClusterRequest { wait_timeout: Some(Duration::default()), ..Default::default() }, Some("wait_timeout"))]
    #[case(CreateClusterRequest { request_id: "r".to_owned(), ..Default::default() }, Some("request_id"))]
    fn settings_without_effect_on_the_new_cluster_of_a_job_are_refused(
        #[case] given: CreateClusterRequest,
        #[case] refused: Option<&str>,
    ) {
        let message = check_new_cluster(&given).err().map(|error| error.message);
        match (refused, &message) {
            (None, None) => {}
            (Some(field), Some(message))
                if message.starts_with("new_cluster has ") && message.contains(field) => {}
            _ => panic!("{message:?}"),
        }
    }
}
