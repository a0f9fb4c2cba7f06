use std::fs;
use std::time::{Duration, SystemTime};

use muster_core::time::TimeSpan;
use muster_engine::ports::clock::{Clock as _, SystemClock};
use rstest::rstest;
use uuid::Uuid;

use super::*;
use crate::shim::{OomKills, ProcessId, RuntimeFolder, ShimState};
use crate::sys::boot_id;

const DAY: TimeSpan = TimeSpan::from_secs(86_400);

/// The process number of no process: it is larger than the highest one of Linux.
const NO_PROCESS: ProcessId = ProcessId { pid: i32::MAX, start_time: 1 };

struct Jobs {
    parent: tempfile::TempDir,
    shims: Shims,
}

impl Jobs {
    fn new() -> Self {
        let parent = tempfile::tempdir().unwrap();
        let runtime = RuntimeFolder::at(parent.path().join("run")).unwrap();
        Self { shims: Shims::with_program("/bin/false", runtime), parent }
    }

    fn folder(&self) -> PathBuf {
        self.parent.path().join(JOBS)
    }

    /// Creates the files of a job whose shim recorded this state.
    fn add(&self, number: u128, state: Option<ShimState>) -> NodeFolder {
        let job = NodeFolder::new(&self.folder(), NodeId::from_uuid(Uuid::from_u128(number)));
        job.create().unwrap();
        fs::write(job.log(), "a line\n").unwrap();
        if let Some(state) = state {
            files::write(&job.path().join("state.json"), &state).unwrap();
        }
        job
    }

    async fn purge(&self, ended_before: Timestamp) {
        purge(self.folder(), &self.shims, ended_before).await;
    }
}

fn state(boot: &str, end: Option<Timestamp>) -> ShimState {
    let end = end.map(|at| NodeExit {
        how: ExitCause::Exited { code: 0 },
        at,
        stopped: None,
        oom_kills: OomKills::Same,
    });
    ShimState {
        node: NodeId::from_uuid(Uuid::nil()),
        generation: Fence(1),
        boot_id: boot.to_owned(),
        shim: NO_PROCESS,
        child: None,
        socket: PathBuf::from("socket"),
        started_at: Timestamp::default(),
        end,
    }
}

/// Makes all files of a job look two days old.
fn age(job: &NodeFolder) {
    let then = SystemTime::now() - Duration::from_hours(48);
    let files = fs::read_dir(job.path()).unwrap().map(|entry| entry.unwrap().path());
    for file in files.chain([job.path().to_owned()]).collect::<Vec<_>>() {
        fs::File::open(file).unwrap().set_modified(then).unwrap();
    }
}

#[rstest]
#[case::lost(Some(state(boot_id().unwrap(), None)))]
#[case::of_an_earlier_boot(Some(state("an earlier boot", None)))]
#[case::never_started(None)]
#[tokio::test]
async fn a_job_without_a_recorded_end_is_purged_when_its_files_are_old(#[case] state: Option<ShimState>) {
    let jobs = Jobs::new();
    let (old, new) = (jobs.add(1, state.clone()), jobs.add(2, state));
    age(&old);
    jobs.purge(SystemClock.now().before(DAY)).await;
    assert!(!old.path().exists() && new.path().exists());
}

#[tokio::test]
async fn an_ended_job_is_purged_by_the_time_of_its_end() {
    let jobs = Jobs::new();
    let yesterday = SystemClock.now().before(DAY);
    let ended = |at| Some(state(boot_id().unwrap(), Some(at)));
    let (old, new) = (jobs.add(1, ended(yesterday.before(DAY))), jobs.add(2, ended(SystemClock.now())));
    age(&new);
    jobs.purge(yesterday).await;
    assert!(!old.path().exists() && new.path().exists());
}

#[tokio::test]
async fn a_job_whose_files_cannot_be_removed_does_not_keep_those_of_others() {
    let jobs = Jobs::new();
    let folders = [1, 2, 3].map(|number| jobs.add(number, None));
    let [_, locked, _] = &folders;
    let lock = fs::File::create(locked.path().join("lock")).unwrap();
    lock.lock().unwrap();
    folders.iter().for_each(age);
    jobs.purge(SystemClock.now().before(DAY)).await;
    assert_eq!(folders.each_ref().map(|job| job.path().exists()), [false, true, false]);
}
