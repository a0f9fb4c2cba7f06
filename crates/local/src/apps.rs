//! Commands beside the server: whether their processes run.

use std::io;

use async_trait::async_trait;
use muster_core::app::Process;
use muster_core::unknown_fields::UnknownFields;
use muster_engine::ports::provider::{ProcessProvider, ProcessState};

use crate::sys::{Pidfd, ProcessId, boot_id};

/// The processes of this host.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HostProcesses;

fn id_of(process: &Process) -> Option<ProcessId> {
    Some(ProcessId { pid: i32::try_from(process.pid).ok()?, start_time: process.start_time })
}

#[async_trait]
impl ProcessProvider for HostProcesses {
    fn state(&self, process: &Process) -> Option<ProcessState> {
        let same_boot = boot_id().ok()? == process.boot_id;
        let runs = id_of(process).is_some_and(|id| same_boot && ProcessId::of(id.pid) == Some(id));
        Some(if runs { ProcessState::Running } else { ProcessState::Ended })
    }

    async fn wait_for_end(&self, process: &Process) {
        if self.state(process) != Some(ProcessState::Running) {
            return;
        }
        let held = id_of(process).map(Pidfd::open).transpose().ok().flatten().flatten();
        if let Some(held) = held
            && let Err(error) = held.ended().await
        {
            tracing::warn!(pid = process.pid, %error, "cannot wait for the end of a process");
            // It is looked at again after a while.
            std::future::pending::<()>().await;
        }
    }
}

/// A process of this host, as a server on it knows it; none if it has ended.
pub fn process(pid: u32) -> io::Result<Option<Process>> {
    let Ok(number) = i32::try_from(pid) else { return Ok(None) };
    let boot_id = boot_id()?.to_owned();
    let found = ProcessId::of(number);
    Ok(found.map(|id| Process { pid, start_time: id.start_time, boot_id, unknown: UnknownFields::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_is_seen_until_it_ends() {
        let mut child = tokio::process::Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let own = process(child.id().expect("it runs")).expect("proc can be read").expect("it runs");
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
        let own = process(std::process::id()).expect("proc can be read").expect("it runs");
        assert_eq!(HostProcesses.state(&own), Some(ProcessState::Running));
        let other_start = Process { start_time: own.start_time + 1, ..own.clone() };
        let other_boot = Process { boot_id: "another".to_owned(), ..own };
        for other in [other_start, other_boot] {
            assert_eq!(HostProcesses.state(&other), Some(ProcessState::Ended));
        }
    }
}
