//! Observation of the processes of this host that apps consist of, such as commands of `muster run`.

use std::io;

use async_trait::async_trait;
use muster_core::app::Process;
use muster_core::unknown_fields::UnknownFields;
use muster_engine::ports::provider::{ProcessProvider, ProcessState};

use crate::sys::{Pidfd, ProcessId, boot_id};

/// Observes processes of this host.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HostProcesses;

fn process_id(process: &Process) -> Option<ProcessId> {
    Some(ProcessId { pid: i32::try_from(process.pid).ok()?, start_time: process.start_time })
}

#[async_trait]
impl ProcessProvider for HostProcesses {
    fn state(&self, process: &Process) -> Option<ProcessState> {
        let same_boot = boot_id().ok()? == process.boot_id;
        let runs = process_id(process).is_some_and(|id| same_boot && ProcessId::find(id.pid) == Some(id));
        Some(if runs { ProcessState::Running } else { ProcessState::Ended })
    }

    async fn wait_for_end(&self, process: &Process) {
        if self.state(process) != Some(ProcessState::Running) {
            return;
        }
        let held = process_id(process).map(Pidfd::open).transpose().ok().flatten().flatten();
        if let Some(held) = held
            && let Err(error) = held.wait_for_exit().await
        {
            tracing::warn!(pid = process.pid, %error, "cannot wait for the end of a process");
            // Never return early: that would report the end. The engine observes the process periodically as well.
            std::future::pending::<()>().await;
        }
    }
}

/// Returns the identity of a running process of this host by its number; `None` if there is no such process.
pub fn find_process(pid: u32) -> io::Result<Option<Process>> {
    let Ok(number) = i32::try_from(pid) else { return Ok(None) };
    let boot_id = boot_id()?.to_owned();
    let found = ProcessId::find(number);
    Ok(found.map(|id| Process { pid, start_time: id.start_time, boot_id, unknown: UnknownFields::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_is_observed_as_running_until_it_ends() {
        let mut child = tokio::process::Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let own = find_process(child.id().expect("it runs")).expect("proc can be read").expect("it runs");
        assert_eq!(HostProcesses.state(&own), Some(ProcessState::Running));
        let waiting = tokio::spawn({
            let own = own.clone();
            async move { HostProcesses.wait_for_end(&own).await }
        });
        child.kill().await.expect("it can be killed");
        waiting.await.expect("the end is noticed");
        assert_eq!(HostProcesses.state(&own), Some(ProcessState::Ended));
    }

    #[test]
    fn a_process_of_another_boot_or_another_start_has_ended() {
        let own = find_process(std::process::id()).expect("proc can be read").expect("it runs");
        assert_eq!(HostProcesses.state(&own), Some(ProcessState::Running));
        let other_start = Process { start_time: own.start_time + 1, ..own.clone() };
        let other_boot = Process { boot_id: "another".to_owned(), ..own };
        for other in [other_start, other_boot] {
            assert_eq!(HostProcesses.state(&other), Some(ProcessState::Ended));
        }
    }
}
