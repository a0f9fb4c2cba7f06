//! The gRPC service of jobs.

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use muster_core::job::{Job as Row, JobSpec};
use muster_core::principal::Door;
use muster_core::time::TimeSpan;
use muster_core::unknown_fields::UnknownFields;
use muster_proto::v1alpha2::job_service_server::JobService;
use muster_proto::v1alpha2::{
    GetJobLogsRequest, GetJobRequest, Job, JobLogChunk, ListAllJobsRequest, ListAllJobsResponse,
    ListJobsRequest, ListJobsResponse, StopJobRequest, SubmitJobRequest,
};
use muster_service::find::ClusterRef;
use muster_service::jobs::NewJob;
use muster_service::lists::{Authorized, Direction, JobQuery, JobSort, PageRequest};
use muster_service::ports::LogQuery;
use muster_service::{Caller, Recipe, ServiceError};
use tonic::{Request, Response, Status, async_trait};

use super::find::optional;
use super::pages::{self, page_request};
use super::{CoreApi, access, convert, create, limits, recipe};
use crate::error::ApiError;

type GrpcResult<T> = Result<Response<T>, Status>;

/// The longest that a request may wait for the end of a job.
const LONGEST_WAIT: TimeSpan = TimeSpan::from_secs(60);

/// What jobs can be sorted by.
const SORTS: &[(&str, JobSort)] = &[("created_at", JobSort::CreatedAt), ("name", JobSort::Name)];

/// The query of a list request of either type.
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
                if name.is_empty() {
                    name = self.service.new_job_name();
                }
                let mut cluster = given.cluster.unwrap_or_default();
                if cluster.name.is_empty() {
                    cluster.name.clone_from(&name);
                }
                if !cluster.app.is_empty() || cluster.ephemeral {
                    let message =
                        "new_cluster has app or ephemeral: its job is what it ends with; leave them out";
                    return Err(ApiError::invalid(message).into());
                }
                if given.validate_only {
                    let message = "new_cluster has validate_only: a job is submitted for real; leave it out";
                    return Err(ApiError::invalid(message).into());
                }
                create::namespace(&namespace, &given.namespace)?;
                create::namespace(&namespace, &cluster.namespace)?;
                self.configure(&namespace, &given.stored_config, given.config, &mut cluster).await?;
                let create::New { cluster, profile } =
                    Box::pin(self.resolved_cluster(&access, namespace, cluster)).await?;
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
        let closing = self.service.closing().clone();
        // Without this error a client would take the end of the server for the end of the job.
        let interrupted = closing.clone();
        let stopping = stream::once(async move { interrupted.is_cancelled() }).filter_map(async |stops| {
            let message = "the server is stopping: the job and its log continue at the next server";
            stops.then(|| Err(Status::from(ApiError::unavailable(message))))
        });
        let chunks = chunks.take_until(closing.cancelled_owned()).chain(stopping);
        Ok(Response::new(open.count(chunks.boxed())))
    }

    async fn stop_job(&self, request: Request<StopJobRequest>) -> GrpcResult<Job> {
        let access = access(&request)?;
        let StopJobRequest { name, namespace } = request.into_inner();
        let job = self.service.find_job(&access, &namespace, &name).await.map_err(ApiError::from)?;
        let stopped = self.service.stop_job(&access, job).await.map_err(ApiError::from)?;
        Ok(Response::new(shown(stopped)))
    }
}

fn spec(given: Job) -> JobSpec {
    let Job { command, working_dir, envs, .. } = given;
    JobSpec { command, working_dir, environment: envs, unknown: UnknownFields::default() }
}

/// Variables are left out: they may be secret, and readers see jobs.
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
