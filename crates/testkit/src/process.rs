//! Child processes of tests, which cannot outlive them.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, PipeReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::death_signal::under_death_signal;
use crate::eventually;
use crate::logs;
use crate::process_folder::contains;

/// The number of lines of output in the report of a failed wait.
const TAIL: usize = 40;

/// The longest wait for the end of a killed group before its folder is removed.
const GRACE: Duration = Duration::from_secs(5);

/// How long the output of a process that has ended is still read, because a child of it may keep it open.
const OUTPUT_LIMIT: Duration = Duration::from_secs(2);

/// A child process of a test, with its output in a log file and with its own temporary folder. The process is killed,
/// with its process group, when this value is dropped, and by the kernel when the thread that started it ends: start it
/// from the test's own thread.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Arc<Mutex<Vec<String>>>,
    written: watch::Receiver<usize>,
    all_gone: mpsc::Receiver<()>,
    folder: TempDir,
}

impl Process {
    /// Starts a command with its program, arguments, variables and folder; its redirections are ignored.
    pub fn spawn(name: &str, command: &Command) -> Self {
        Self::try_spawn(name, command)
            .unwrap_or_else(|error| panic!("cannot start {name} ({command:?}): {error}"))
    }

    fn try_spawn(name: &str, command: &Command) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("muster-test-").tempdir()?;
        let log = File::create(log_in(&folder))?;
        let temp = folder.path().join("tmp");
        fs::create_dir(&temp)?;
        let (output, input) = io::pipe()?;
        let mut wrapped = under_death_signal(command, &[]);
        // Removed with the process, unless the command sets a temporary folder itself.
        if !command.get_envs().any(|(name, _)| name == "TMPDIR") {
            wrapped.env("TMPDIR", &temp);
        }
        let mut child = tokio::process::Command::from(wrapped)
            .stdin(Stdio::piped())
            .stdout(input.try_clone()?)
            .stderr(input)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (count, written) = watch::channel(0);
        // A thread reads the pipe without a runtime, and ends with the last process that can write to it.
        let kept = Arc::clone(&lines);
        let (alive, all_gone) = mpsc::channel();
        thread::Builder::new().name(format!("output of {name}")).spawn(move || {
            collect_lines(output, log, &kept, &count);
            drop(alive);
        })?;
        let stdin = child.stdin.take();
        Ok(Self { name: name.to_owned(), child, stdin, lines, written, all_gone, folder })
    }

    /// The process id; `None` once the process was waited for.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// The log file with all output, which is removed with this value.
    pub fn log(&self) -> PathBuf {
        log_in(&self.folder)
    }

    /// Waits for a line of output that contains `text`, also among those already written, and returns it.
    pub async fn wait_for_line(&self, text: &str, deadline: Duration) -> String {
        let found = timeout(deadline, self.line_with(text)).await;
        let why = match found {
            Ok(Some(line)) => return line,
            Ok(None) => "closed its output".to_owned(),
            Err(_) => format!("wrote no such line within {deadline:?}"),
        };
        panic!("waited for {} to write {text:?}, but it {why}; its last lines:\n{}", self.name, self.tail());
    }

    async fn line_with(&self, text: &str) -> Option<String> {
        let mut written = self.written.clone();
        let mut seen = 0;
        loop {
            let found = {
                let lines = self.lines.lock();
                let found = lines[seen..].iter().find(|line| line.contains(text)).cloned();
                seen = lines.len();
                found
            };
            if found.is_some() {
                return found;
            }
            if written.wait_for(|count| *count > seen).await.is_err() {
                // The reader has ended, so that there is no further output.
                return self.lines.lock()[seen..].iter().find(|line| line.contains(text)).cloned();
            }
        }
    }

    /// Waits for the end of the process, and then for the end of its output, so that `tail` has its last lines. Output
    /// that a child of it keeps open is waited for no longer than `OUTPUT_LIMIT`.
    pub async fn wait_for_exit(&mut self, deadline: Duration) -> ExitStatus {
        let in_time = timeout(deadline, self.child.wait()).await.unwrap_or_else(|_| {
            panic!("{} did not end within {deadline:?}; its last lines:\n{}", self.name, self.tail())
        });
        let mut written = self.written.clone();
        let _ = timeout(OUTPUT_LIMIT, written.wait_for(|_| false)).await;
        in_time.expect("a child of this process can be waited for")
    }

    /// Waits for the end of the process, and of every process that has inherited its temporary folder: commands with a
    /// separate process group end a moment later.
    pub async fn wait_for_exit_of_all(&mut self, deadline: Duration) {
        self.wait_for_exit(deadline).await;
        let mark = self.folder.path().as_os_str().as_encoded_bytes();
        eventually(&format!("the end of all processes of {}", self.name), deadline, async || {
            let left = processes_with(mark);
            if left.is_empty() { Ok(()) } else { Err(format!("processes {left:?}")) }
        })
        .await;
    }

    /// Writes a line to the standard input of the process.
    pub async fn write_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("its standard input was not closed");
        let text = format!("{line}\n");
        let written = stdin.write_all(text.as_bytes()).await;
        written.unwrap_or_else(|error| panic!("{} does not read: {error}\n{}", self.name, self.tail()));
    }

    /// Closes the standard input of the process.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Closes the standard input and waits until no process can write to the output; if that exceeds `deadline`, the
    /// process is killed when this value is dropped.
    pub(crate) fn end_by_stdin(&mut self, deadline: Duration) {
        self.close_stdin();
        let _ = self.all_gone.recv_timeout(deadline);
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills only this process (SIGKILL), and none of its children.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            kill_process(pid, signal).expect("a child that was not waited for can be signalled");
        }
    }

    fn pid(&self) -> Option<Pid> {
        self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()))
    }

    /// The last lines of the output.
    pub fn tail(&self) -> String {
        logs::last_lines(&self.lines.lock().join("\n"), TAIL)
    }
}

/// Returns the processes whose environment contains these bytes. A process that has ended has no environment.
fn processes_with(mark: &[u8]) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let has_mark = |pid: &u32| contains(format!("/proc/{pid}/environ").as_ref(), mark);
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(has_mark).collect()
}

/// Returns true if a process runs; a zombie has ended.
pub fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(group) = self.pid() {
            // Fails if the whole group has ended already.
            let _ = kill_process_group(group, Signal::KILL);
            // Reaps the process: in some containers no other process reaps zombies.
            let _ = waitpid(Some(group), WaitOptions::empty());
        }
        // Children may still be ending, and write to the folder, which is removed next.
        let _ = self.all_gone.recv_timeout(GRACE);
    }
}

fn collect_lines(
    output: PipeReader,
    mut log: File,
    lines: &Mutex<Vec<String>>,
    count: &watch::Sender<usize>,
) {
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        // Tests use the lines in memory; the log is only for developers.
        let _ = writeln!(log, "{line}");
        let written = {
            let mut lines = lines.lock();
            lines.push(line);
            lines.len()
        };
        count.send_replace(written);
    }
}

fn log_in(folder: &TempDir) -> PathBuf {
    Path::join(folder.path(), "output.log")
}
