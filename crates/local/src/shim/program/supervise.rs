//! The main loop of a shim: handles output, exits, signals and requests until no process of the node is left.

mod node_processes;
mod signals;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use muster_engine::ports::clock::{Clock as _, SystemClock};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use self::node_processes::NodeProcesses;
use self::signals::{ChildExits, SignalRequest, SignalRequests};
use super::log::LogWriter;
use super::request_listener::{PendingRequest, RequestListener};
use super::setup::{self, Socket, start_failure};
use crate::shim::folder::NodeFolder;
use crate::shim::oom_kills::OomCounter;
use crate::shim::state::{ExitCause, NodeExit, ShimState, StopOrigin};
use crate::shim::wire::{StartOrder, StartReport, StopSpec};
use crate::sys::{self, ProcessId};

/// Grace period of a node when its shim gets a signal to stop, as when the machine shuts down.
const SIGNAL_GRACE: Duration = Duration::from_secs(10);

/// Size of the read buffer. Small, because every node has one.
const CHUNK: usize = 16 * 1024;

/// A shim whose command runs.
pub(super) struct Supervisor {
    folder: NodeFolder,
    runtime: PathBuf,
    node: NodeProcesses,
    log: LogWriter,
    oom: OomCounter,
    output: Option<Receiver>,
    socket: Option<Socket>,
    listener: RequestListener,
    requests: mpsc::Receiver<PendingRequest>,
    ends: ChildExits,
    signals: SignalRequests,
}

impl Supervisor {
    /// Acquires the lock, opens the socket and starts the command. The error is the report for the server.
    pub(super) async fn start(order: StartOrder) -> Result<Self, StartReport> {
        let StartOrder { node: id, folder, runtime, launch } = order;
        setup::detach_from_server().map_err(start_failure("the shim cannot detach from its server"))?;
        let folder = NodeFolder::at(folder, id);
        let lock = setup::lock_node(&folder, &launch)?;
        let (socket, listener) =
            Socket::bind(&runtime, id).map_err(start_failure("the shim's socket cannot be created"))?;
        let mut ends = ChildExits::new().map_err(start_failure("exits of children cannot be observed"))?;
        let signals = SignalRequests::new().map_err(start_failure("signals cannot be received"))?;
        let (listener, requests) =
            RequestListener::new(listener).map_err(start_failure("the shim's socket cannot be used"))?;
        let (output, input) =
            io::pipe().map_err(start_failure("the pipe for the output cannot be created"))?;
        let output =
            Receiver::from_owned_fd(output.into()).map_err(start_failure("the output cannot be read"))?;
        let oom = OomCounter::start(launch.oom_counter.clone());
        let log = LogWriter::open(&folder, launch.log);
        folder.write_launch(&launch).map_err(start_failure("launch.json cannot be written"))?;
        let mut state = ShimState {
            node: id,
            generation: launch.generation,
            boot_id: sys::boot_id().map_err(start_failure("the id of the boot cannot be read"))?.to_owned(),
            shim: ProcessId::find(sys::own_pid())
                .ok_or(StartReport::Failed { message: "/proc is missing".into() })?,
            child: None,
            socket: socket.path().to_owned(),
            started_at: SystemClock.now(),
            end: None,
        };
        // Recorded before the command starts: if the shim is killed in between, the node must not look as if it never
        // started.
        folder.write_state(&state).map_err(start_failure("state.json cannot be written"))?;
        let started = setup::spawn_command(&launch, input);
        let child = match started.map_err(start_failure("the command's process cannot be created"))? {
            Ok(child) => child,
            Err(failure) => {
                let how = ExitCause::NotStarted { code: failure.code, message: failure.message.clone() };
                state.end =
                    Some(NodeExit { how, at: SystemClock.now(), stopped: None, oom_kills: oom.compare() });
                folder.write_state(&state).map_err(start_failure("state.json cannot be written"))?;
                return Err(StartReport::CannotRun { code: failure.code, message: failure.message });
            }
        };
        state.child = Some(child);
        let mut node = NodeProcesses::new(child.pid, lock, state);
        if let Err(error) = folder.write_state(node.state()) {
            node.kill();
            while !node.reap() {
                ends.next().await;
            }
            return Err(start_failure("state.json cannot be written")(error));
        }
        let (output, socket) = (Some(output), Some(socket));
        Ok(Self { folder, runtime, node, log, oom, output, socket, listener, requests, ends, signals })
    }

    /// Returns the recorded state of the node.
    pub(super) fn state(&self) -> &ShimState {
        self.node.state()
    }

    /// Supervises the node until no process of it is left, and records how it ended.
    pub(super) async fn run_until_end(mut self) {
        let mut chunk = vec![0; CHUNK];
        // The node may have ended during the start.
        while !self.node.reap() {
            while !self.handle_next_event(&mut chunk).await {}
        }
        while let Some(length) =
            self.output.as_ref().and_then(|output| sys::read_available(output, &mut chunk))
        {
            self.log.write(&chunk[..length]);
        }
        let _ = self.log.log_lost_output();
        let state = self.node.into_final_state(self.oom.compare());
        // Without the recorded end the node would count as lost: on a full disk, older logs are removed for it.
        if self.folder.write_state(&state).is_err() {
            self.log.remove_older_logs();
            let _ = self.folder.write_state(&state);
        }
    }

    /// Waits for one event and handles it. Returns true if processes may have ended.
    async fn handle_next_event(&mut self, chunk: &mut [u8]) -> bool {
        let Self { node, log, output, listener, requests, ends, signals, .. } = self;
        let wake = node.next_wake();
        tokio::select! {
            () = ends.next() => return true,
            () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                node.kill_after_grace();
                return true;
            }
            Some((request, reply)) = requests.recv() => {
                // The caller may have disconnected; the request is executed nevertheless.
                let _ = reply.send(node.handle_request(&request));
            }
            () = listener.accept_connection() => {}
            read = read_output(output.as_ref(), chunk), if output.is_some() => match read {
                Ok(length) if length > 0 => log.write(&chunk[..length]),
                // The node closed its output, and may keep running.
                _ => *output = None,
            },
            asked = signals.next() => match asked {
                SignalRequest::Stop => node.stop(StopSpec::with_grace(SIGNAL_GRACE), StopOrigin::Signal),
                SignalRequest::ListenAgain => self.listen_again(),
            },
        }
        false
    }

    /// Creates the socket again: a server did not find it, because a clean-up removed the file.
    fn listen_again(&mut self) {
        self.socket = None;
        let id = self.node.state().node;
        if let Ok((socket, listener)) = Socket::bind(&self.runtime, id)
            && self.listener.replace_socket(listener).is_ok()
        {
            self.socket = Some(socket);
        }
    }
}

/// Reads the available output. Cancel safe.
async fn read_output(output: Option<&Receiver>, chunk: &mut [u8]) -> io::Result<usize> {
    let Some(output) = output else { return Ok(0) };
    loop {
        output.readable().await?;
        match output.try_read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}
