//! Submits, reads and stops jobs: commands that use a cluster, run by tasks.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use muster_core::cluster::Cluster;
use muster_core::ids::{InstanceId, JobId, LOCAL_PROVIDER, TaskId};
use muster_core::job::{Job, JobSpec, JobState, LAST_LINES, last_lines};
use muster_core::task::{Task, TaskKind};
use muster_core::time::TimeSpan;
use muster_engine::ports::jobs::JobLog;
use muster_engine::ports::provider::{INVALID, LogQuery, Provider, ProviderError};
use muster_engine::{Caller, NewClusterUser, Recipe, new_id};
use muster_store::commands::{InsertJob, StopJob};

use crate::access::Access;
use crate::authorize::Resource;
use crate::error::ServiceError;
use crate::find::is_permitted;
use crate::service::Service;

/// The longest name: a DNS label that a cluster can have as its name, too.
const LONGEST_NAME: usize = 53;

/// The longest single wait for the start of a job's command, which is then repeated.
const START_PATIENCE: TimeSpan = TimeSpan::from_secs(60);

/// The time limit for reading the last lines of a running job.
const LAST_LINES_TIMEOUT: TimeSpan = TimeSpan::from_secs(2);

/// A job as a caller submits it.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// The name; if empty, the server chooses one.
    pub name: String,
    /// The command.
    pub spec: JobSpec,
}

fn check_name(name: &str) -> Result<(), ServiceError> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let good = name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.bytes().all(is_plain)
        && name.len() <= LONGEST_NAME;
    if good {
        return Ok(());
    }
    Err(ServiceError::invalid(format!(
        "job name is '{name}': must have lowercase letters, digits and hyphens, begin with a letter, not end with a \
         hyphen, and have at most {LONGEST_NAME} characters"
    )))
}

fn refused(error: ProviderError) -> ServiceError {
    if error.reason == INVALID {
        return ServiceError::invalid(error.message).code("InvalidJob");
    }
    error.into()
}

impl Service {
    /// A new name for a job whose submitter gives none.
    pub fn new_job_name(&self) -> String {
        // The end of an id is random, while its beginning is a time.
        let id = new_id().as_simple().to_string();
        format!("job-{}", &id[id.len() - 8..])
    }

    /// Submits a job on a cluster that exists.
    pub async fn submit_job(
        &self,
        access: &Access,
        cluster: &Cluster,
        new: NewJob,
    ) -> Result<Job, ServiceError> {
        if cluster.deleted_at.is_some() {
            return Err(ServiceError::not_found(format!("cluster '{}' was deleted", cluster.name)));
        }
        let job = self.job(access, cluster, new, false).await?;
        self.store().insert_job(InsertJob { job: job.clone(), events: Vec::new() }).await?;
        Ok(job)
    }

    /// Submits a job together with a cluster that is created for it and deleted when it ends. Both are stored in one
    /// commit.
    pub async fn submit_job_with_cluster(
        &self,
        access: &Access,
        caller: &Caller,
        cluster: Cluster,
        recipe: Recipe,
        new: NewJob,
    ) -> Result<Job, ServiceError> {
        let job = self.job(access, &cluster, new, true).await?;
        let user = NewClusterUser::Job(Box::new(job.clone()));
        self.engine.create_cluster_for(cluster, recipe, true, user, caller.clone()).await?;
        Ok(job)
    }

    async fn job(
        &self,
        access: &Access,
        cluster: &Cluster,
        NewJob { name, spec }: NewJob,
        owns_cluster: bool,
    ) -> Result<Job, ServiceError> {
        let name = if name.is_empty() { self.new_job_name() } else { name };
        check_name(&name)?;
        spec.check().map_err(|why| ServiceError::invalid(why).code("InvalidJob"))?;
        self.check_local_job(access, &cluster.instance)?;
        let provider = self.engine.provider(&cluster.instance);
        let runner = provider.and_then(Provider::job_runner).ok_or_else(|| {
            let message = format!(
                "jobs cannot run at '{}': submit them on a cluster of local processes or of Kubernetes",
                cluster.instance.provider()
            );
            ServiceError::invalid(message).code("NoJobsHere")
        })?;
        runner.admit(&spec, cluster).await.map_err(refused)?;
        let (now, id) = (self.now(), JobId::from_uuid(new_id()));
        let instance = cluster.instance.clone();
        let task = TaskId::from_uuid(new_id());
        Ok(Job {
            id,
            namespace: cluster.namespace.clone(),
            name,
            project: cluster.project.clone(),
            owner: access.principal().as_owner(),
            instance: instance.clone(),
            cluster_id: cluster.id,
            cluster_name: cluster.name.clone(),
            owns_cluster,
            spec,
            stopped_by: None,
            task: Task::new(task, TaskKind::Job, instance, &cluster.project, now),
            created_at: now,
        })
    }

    /// Refuses callers who may not run code as the server's user, because the commands of local jobs run as that
    /// user.
    fn check_local_job(&self, access: &Access, instance: &InstanceId) -> Result<(), ServiceError> {
        if instance.provider() != LOCAL_PROVIDER || self.may_run_as_server(access.principal()) {
            return Ok(());
        }
        let message = "commands of local jobs run as the server's own user: only admins may submit and stop them; \
                       ask an admin";
        Err(ServiceError::forbidden(message).code("LocalProcessesNeedAdmin"))
    }

    /// The job with this name or id, or with the only id that begins so, if the caller may perform the operation on
    /// it.
    pub async fn find_job(&self, access: &Access, namespace: &str, given: &str) -> Result<Job, ServiceError> {
        if given.is_empty() || namespace.is_empty() {
            return Err(ServiceError::invalid("name or namespace of the job is empty: give both"));
        }
        let unknown = || {
            ServiceError::not_found(format!("job '{given}' not found in namespace '{namespace}'"))
                .code("JobNotFound")
        };
        let what = format!("job '{namespace}/{given}'");
        let mut seen = Vec::new();
        for job in self.store().find_jobs(namespace, given).await? {
            if is_permitted(access, Resource { what: &what, project: &job.project, owner: &job.owner })? {
                seen.push(job);
            }
        }
        let several = || {
            ServiceError::invalid(format!(
                "the ids of several jobs begin with '{given}': give more characters, or the name"
            ))
        };
        match <[Job; 1]>::try_from(seen) {
            Ok([job]) => Ok(job),
            Err(none) if none.is_empty() => Err(unknown()),
            Err(_) => Err(several()),
        }
    }

    /// Waits until a job has ended, the time is over or the server stops; returns the job as it then is.
    pub async fn wait_for_job(&self, job: Job, at_most: TimeSpan) -> Result<Job, ServiceError> {
        let waiting = self.engine.wait_for_job(&job, |_| false, at_most);
        match self.closing().run_until_cancelled(waiting).await {
            Some(waited) => Ok(waited?),
            None => Ok(job),
        }
    }

    /// Requests that a job stops; returns the job as it then is. A job that has ended does not change.
    pub async fn stop_job(&self, access: &Access, job: Job) -> Result<Job, ServiceError> {
        self.check_local_job(access, &job.instance)?;
        let by = access.principal().name.clone();
        self.store().stop_job(StopJob { job: job.id, by }).await?;
        Ok(self.store().job(job.id).await?.unwrap_or(job))
    }

    /// The last lines of a job's log: the stored lines if the job has ended, and the present ones if it is running.
    /// Empty if they cannot be read in time.
    pub async fn last_lines(&self, job: &Job) -> String {
        if job.state() != JobState::Running {
            return job.outputs().last_lines;
        }
        let query = LogQuery { tail: Some(LAST_LINES), ..LogQuery::default() };
        let read = async { self.engine.job_logs(job, query).await.ok()?.try_collect::<String>().await.ok() };
        let log = tokio::time::timeout(LAST_LINES_TIMEOUT.into(), read).await;
        log.ok().flatten().map(|log| last_lines(&log)).unwrap_or_default()
    }

    /// The log of a job. A followed log waits for the start of the command, and ends with the command.
    pub async fn job_logs(&self, job: Job, query: LogQuery) -> Result<JobLog, ServiceError> {
        let is_started = |job: &Job| job.state() != JobState::Pending;
        if is_started(&job) {
            return Ok(self.engine.job_logs(&job, query).await?);
        }
        if !query.follow {
            return Ok(stream::empty().boxed());
        }
        let service = self.clone();
        let begin = async move {
            let mut job = job;
            while !is_started(&job) {
                job = match service.engine.wait_for_job(&job, is_started, START_PATIENCE).await {
                    Ok(job) => job,
                    Err(error) => return failed(ProviderError::transient("NoJob", error.to_string())),
                };
            }
            // A command that never ran has no log.
            service
                .engine
                .job_logs(&job, query)
                .await
                .unwrap_or_else(|error| failed(ProviderError::transient("NoLog", error.to_string())))
        };
        Ok(stream::once(begin).flatten().boxed())
    }
}

fn failed(error: ProviderError) -> JobLog {
    stream::iter([Err(error)]).boxed()
}
