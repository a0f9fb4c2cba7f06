//! The commands, as methods of the store.

use muster_core::action::{Action, Control};
use muster_core::app::App;
use muster_core::ids::NodeId;
use muster_core::policy::{Binding, Policy};
use muster_core::task::Task;
use muster_core::time::Timestamp;

use crate::commands::{
    Abandon, Accept, Accepted, Adopt, AppUseChanged, Bind, ChangeAppUse, CheckNewCluster, Claim, ClaimTasks,
    Claimed, CompleteLifecycle, CountDeaths, CreatePolicy, DeleteComputeTemplate, DeleteImageTemplate,
    DeletePolicy, DeleteProfile, DeleteReceiver, Deregister, Discover, EndApp, EndForApp, EndWait,
    EndedForApp, Expire, Expired, ForgetChecks, Heartbeat, InsertComputeTemplate, InsertImageTemplate,
    InsertJob, InsertProfile, Mirror, MirrorComputeTemplates, Mirrored, Observe, Purge, Purged, PutReceiver,
    Record, RecordAppMarks, RecordAppStates, RecordExpiryState, RecordTask, Register, RegisterApp, Removed,
    RenamePolicy, RenewApp, Renewal, Requeue, ServeInstances, Signal, StopJob, TakeDuty, TaskRecorded,
    UpdateProfile,
};
use crate::error::StoreError;
use crate::postgres::Lane;
use crate::store::Store;

impl Store {
    /// Stores an action, with the cluster or nodes that it creates.
    pub async fn accept(&self, command: Accept) -> Result<Accepted, StoreError> {
        self.write("accept", command).await
    }

    /// Checks if a new cluster could be stored now.
    pub async fn check_new_cluster(&self, command: CheckNewCluster) -> Result<(), StoreError> {
        self.write("check_new_cluster", command).await
    }

    /// Ends the row of a cluster whose provider instance has no engine any more.
    pub async fn abandon(&self, command: Abandon) -> Result<Action, StoreError> {
        self.write("abandon", command).await
    }

    /// Claims actions for an engine.
    pub async fn claim(&self, command: Claim) -> Result<Vec<Claimed>, StoreError> {
        self.write("claim", command).await
    }

    /// Writes one step of a running action, and returns its signals.
    pub async fn record(&self, command: Record) -> Result<Option<Control>, StoreError> {
        self.write("record", command).await
    }

    /// Mirrors the observed state of a delegated cluster to its rows.
    pub async fn mirror(&self, command: Mirror) -> Result<Mirrored, StoreError> {
        self.write("mirror", command).await
    }

    /// Stores a discovered cluster; true if it has a row now.
    pub async fn discover(&self, command: Discover) -> Result<bool, StoreError> {
        self.write("discover", command).await
    }

    /// Binds a policy to a cluster, or updates the existing binding.
    pub async fn bind(&self, binding: Binding) -> Result<(), StoreError> {
        self.write("bind", Bind { binding }).await
    }

    /// Stores a policy.
    pub async fn create_policy(&self, command: CreatePolicy) -> Result<(), StoreError> {
        self.write("create_policy", command).await
    }

    /// Renames a policy; `None` if it does not exist.
    pub async fn rename_policy(&self, command: RenamePolicy) -> Result<Option<Policy>, StoreError> {
        self.write("rename_policy", command).await
    }

    /// Removes a policy that is attached to no cluster.
    pub async fn delete_policy(&self, command: DeletePolicy) -> Result<Removed, StoreError> {
        self.write("delete_policy", command).await
    }

    /// Adopts a node; returns the existing node if the process or pod was adopted before.
    pub async fn adopt(&self, command: Adopt) -> Result<Option<NodeId>, StoreError> {
        self.write("adopt", command).await
    }

    /// Stores a profile.
    pub async fn insert_profile(&self, command: InsertProfile) -> Result<(), StoreError> {
        self.write("insert_profile", command).await
    }

    /// Writes a profile's name and metadata.
    pub async fn update_profile(&self, command: UpdateProfile) -> Result<(), StoreError> {
        self.write("update_profile", command).await
    }

    /// Removes a profile; false if it is in use.
    pub async fn delete_profile(&self, command: DeleteProfile) -> Result<bool, StoreError> {
        self.write("delete_profile", command).await
    }

    /// Inserts or updates a receiver.
    pub async fn put_receiver(&self, command: PutReceiver) -> Result<(), StoreError> {
        self.write("put_receiver", command).await
    }

    /// Removes a receiver.
    pub async fn delete_receiver(&self, command: DeleteReceiver) -> Result<(), StoreError> {
        self.write("delete_receiver", command).await
    }

    /// Stores a compute template; false if its name is taken.
    pub async fn insert_compute_template(&self, command: InsertComputeTemplate) -> Result<bool, StoreError> {
        self.write("insert_compute_template", command).await
    }

    /// Removes a compute template; false if it does not exist any more.
    pub async fn delete_compute_template(&self, command: DeleteComputeTemplate) -> Result<bool, StoreError> {
        self.write("delete_compute_template", command).await
    }

    /// Writes compute templates whose records are `ConfigMaps`; false if another engine holds the duty.
    pub async fn mirror_compute_templates(
        &self,
        command: MirrorComputeTemplates,
    ) -> Result<bool, StoreError> {
        self.write("mirror_compute_templates", command).await
    }

    /// Stores an image template with its build; false if its name is taken.
    pub async fn insert_image_template(&self, command: InsertImageTemplate) -> Result<bool, StoreError> {
        self.write("insert_image_template", command).await
    }

    /// Removes an image template; false if it does not exist any more.
    pub async fn delete_image_template(&self, command: DeleteImageTemplate) -> Result<bool, StoreError> {
        self.write("delete_image_template", command).await
    }

    /// Stores a job on an existing cluster.
    pub async fn insert_job(&self, command: InsertJob) -> Result<(), StoreError> {
        self.write("insert_job", command).await
    }

    /// Requests that a job stops; false if it has ended.
    pub async fn stop_job(&self, command: StopJob) -> Result<bool, StoreError> {
        self.write("stop_job", command).await
    }

    /// Claims tasks for an engine.
    pub async fn claim_tasks(&self, command: ClaimTasks) -> Result<Vec<Task>, StoreError> {
        self.write("claim_tasks", command).await
    }

    /// Records the progress of a task.
    pub async fn record_task(&self, command: RecordTask) -> Result<TaskRecorded, StoreError> {
        self.write("record_task", command).await
    }

    /// Sets the number of consecutive engines that died while they ran an action.
    pub async fn count_deaths(&self, command: CountDeaths) -> Result<(), StoreError> {
        self.write("count_deaths", command).await
    }

    /// Requeues an action.
    pub async fn requeue(&self, command: Requeue) -> Result<(), StoreError> {
        self.write("requeue", command).await
    }

    /// Sends a signal to an action.
    pub async fn signal(&self, command: Signal) -> Result<Action, StoreError> {
        self.write("signal", command).await
    }

    /// Continues a child action that waits for `complete_lifecycle`.
    pub async fn complete_lifecycle(&self, command: CompleteLifecycle) -> Result<Action, StoreError> {
        self.write("complete_lifecycle", command).await
    }

    /// Ends the wait of an action's child actions.
    pub async fn end_wait(&self, command: EndWait) -> Result<(), StoreError> {
        self.write("end_wait", command).await
    }

    /// Registers an engine; returns the time by the database's clock.
    pub async fn register(&self, command: Register) -> Result<Timestamp, StoreError> {
        self.write("register", command).await
    }

    /// Renews an engine's lease, on a connection of its own where there is a server.
    pub async fn heartbeat(&self, command: Heartbeat) -> Result<Renewal, StoreError> {
        self.write_in(Lane::Lease, "heartbeat", command).await
    }

    /// Records that instances are served.
    pub async fn serve_instances(&self, command: ServeInstances) -> Result<(), StoreError> {
        self.write("serve_instances", command).await
    }

    /// Ends the lease and the duties of an engine that stops.
    pub async fn deregister(&self, command: Deregister) -> Result<(), StoreError> {
        self.write("deregister", command).await
    }

    /// Acquires a duty, if it is free.
    pub async fn take_duty(&self, command: TakeDuty) -> Result<bool, StoreError> {
        self.write("take_duty", command).await
    }

    /// Records observations of clusters and orphans.
    pub async fn observe(&self, command: Observe) -> Result<Mirrored, StoreError> {
        self.write("observe", command).await
    }

    /// Records the expiry states of clusters with limits; false if another engine holds the duty.
    pub async fn record_expiry_state(&self, command: RecordExpiryState) -> Result<bool, StoreError> {
        self.write("record_expiry_state", command).await
    }

    /// Deletes a cluster that has exceeded a limit.
    pub async fn expire(&self, command: Expire) -> Result<Expired, StoreError> {
        self.write("expire", command).await
    }

    /// Registers an app, or updates the row of the same object.
    pub async fn register_app(&self, command: RegisterApp) -> Result<App, StoreError> {
        self.write("register_app", command).await
    }

    /// Renews the lease of an app, and updates its process if that changed.
    pub async fn renew_app(&self, command: RenewApp) -> Result<App, StoreError> {
        self.write("renew_app", command).await
    }

    /// Ends an app.
    pub async fn end_app(&self, command: EndApp) -> Result<App, StoreError> {
        self.write("end_app", command).await
    }

    /// Records observed states of apps; false if another engine holds the duty.
    pub async fn record_app_states(&self, command: RecordAppStates) -> Result<bool, StoreError> {
        self.write("record_app_states", command).await
    }

    /// Records that the marks of an app's object were written.
    pub async fn record_app_marks(&self, command: RecordAppMarks) -> Result<(), StoreError> {
        self.write("record_app_marks", command).await
    }

    /// Adds or removes the use of a cluster by an app.
    pub async fn change_app_use(&self, command: ChangeAppUse) -> Result<AppUseChanged, StoreError> {
        self.write("change_app_use", command).await
    }

    /// Deletes the cluster of an app, if it still belongs to that app.
    pub async fn end_for_app(&self, command: EndForApp) -> Result<EndedForApp, StoreError> {
        self.write("end_for_app", command).await
    }

    /// Removes checks of a cluster that have ended.
    pub async fn forget_checks(&self, command: ForgetChecks) -> Result<Purged, StoreError> {
        self.write("forget_checks", command).await
    }

    /// Removes old history.
    pub async fn purge(&self, command: Purge) -> Result<Purged, StoreError> {
        self.write("purge", command).await
    }
}

#[cfg(test)]
mod tests;
