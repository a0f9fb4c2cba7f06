//! The life of a shim: it waits for output, ends, signals and requests, until nothing of the node is left.

mod node;
mod signals;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use muster_engine::ports::clock::{Clock as _, SystemClock};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use self::node::Node;
use self::signals::{Asked, Ends, Requests};
use super::commands::{self, Ear};
use super::log::Log;
use super::setup::{self, Socket, failed};
use crate::shim::folder::NodeFolder;
use crate::shim::memory::OomCounter;
use crate::shim::state::{Asker, End, Ending, State};
use crate::shim::wire::{Begun, Order, Stop};
use crate::sys::{self, ProcessId};

/// How long a node may take to end when the shim itself is asked to, as when the machine shuts down.
const GRACE_OF_SIGNALS: Duration = Duration::from_secs(10);

/// What is read at once. Small, because every node pays for it.
const CHUNK: usize = 16 * 1024;

/// A shim whose command runs.
pub(super) struct Shim {
    folder: NodeFolder,
    runtime: PathBuf,
    node: Node,
    log: Log,
    oom: OomCounter,
    output: Option<Receiver>,
    socket: Option<Socket>,
    ear: Ear,
    requests: mpsc::Receiver<commands::Asked>,
    ends: Ends,
    signals: Requests,
}

impl Shim {
    /// Starts what the order says. An error is for whoever gave the order.
    pub(super) async fn begin(order: Order) -> Result<Self, Begun> {
        let Order { node: id, folder, runtime, launch } = order;
        setup::part().map_err(failed("the shim cannot part from its server"))?;
        let folder = NodeFolder::at(folder, id);
        let lock = setup::take(&folder, &launch)?;
        let (socket, listener) =
            Socket::bind(&runtime, id).map_err(failed("the shim's socket cannot be made"))?;
        let mut ends = Ends::new().map_err(failed("the ends of children cannot be seen"))?;
        let signals = Requests::new().map_err(failed("signals cannot be received"))?;
        let (ear, requests) = Ear::new(listener).map_err(failed("the shim's socket cannot be used"))?;
        let (output, input) = io::pipe().map_err(failed("there is no pipe for the output"))?;
        let output = Receiver::from_owned_fd(output.into()).map_err(failed("the output cannot be read"))?;
        let oom = OomCounter::begin(launch.oom_counter.clone());
        let log = Log::open(&folder, launch.log);
        folder.write_launch(&launch).map_err(failed("launch.json cannot be written"))?;
        let mut state = State {
            node: id,
            generation: launch.generation,
            boot_id: sys::boot_id().map_err(failed("the boot has no id"))?.to_owned(),
            shim: ProcessId::of(sys::own_pid())
                .ok_or(Begun::Failed { message: "/proc is missing".into() })?,
            child: None,
            socket: socket.path().to_owned(),
            started_at: SystemClock.now(),
            end: None,
        };
        // Before the command starts: should we be killed in between, nobody may believe that nothing was started.
        folder.write_state(&state).map_err(failed("state.json cannot be written"))?;
        let started = setup::spawn(&launch, input);
        let child = match started.map_err(failed("the command's process cannot be made"))? {
            Ok(child) => child,
            Err(failure) => {
                let how = Ending::NotStarted { code: failure.code, message: failure.message.clone() };
                state.end = Some(End { how, at: SystemClock.now(), stopped: None, oom_kills: oom.end() });
                folder.write_state(&state).map_err(failed("state.json cannot be written"))?;
                return Err(Begun::CannotRun { code: failure.code, message: failure.message });
            }
        };
        state.child = Some(child);
        let mut node = Node::new(child.pid, lock, state);
        if let Err(error) = folder.write_state(node.state()) {
            node.kill();
            while !node.look() {
                ends.next().await;
            }
            return Err(failed("state.json cannot be written")(error));
        }
        let (output, socket) = (Some(output), Some(socket));
        Ok(Self { folder, runtime, node, log, oom, output, socket, ear, requests, ends, signals })
    }

    /// How it was begun.
    pub(super) fn state(&self) -> &State {
        self.node.state()
    }

    /// Stays until nothing of the node is left, and writes down how it ended.
    pub(super) async fn run(mut self) {
        let mut chunk = vec![0; CHUNK];
        // It may have ended while it was started.
        while !self.node.look() {
            while !self.next(&mut chunk).await {}
        }
        while let Some(length) = self.output.as_ref().and_then(|output| sys::read_now(output, &mut chunk)) {
            self.log.write(&chunk[..length]);
        }
        let _ = self.log.note_loss();
        let state = self.node.into_ended(self.oom.end());
        // Without room for it the node would count as lost with its shim: older logs give way.
        if self.folder.write_state(&state).is_err() {
            self.log.give_way();
            let _ = self.folder.write_state(&state);
        }
    }

    /// Waits for one thing to happen, and does what it asks for. True if processes may have ended by it.
    async fn next(&mut self, chunk: &mut [u8]) -> bool {
        let Self { node, log, output, ear, requests, ends, signals, .. } = self;
        let wake = node.wake();
        tokio::select! {
            () = ends.next() => return true,
            () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                node.time_is_up();
                return true;
            }
            Some((request, reply)) = requests.recv() => {
                // Whoever asked may be gone, and what was asked for is done regardless.
                let _ = reply.send(node.answer(&request));
            }
            () = ear.accept() => {}
            read = read(output.as_ref(), chunk), if output.is_some() => match read {
                Ok(length) if length > 0 => log.write(&chunk[..length]),
                // It closed its output, and may go on without.
                _ => *output = None,
            },
            asked = signals.next() => match asked {
                Asked::Stop => node.stop(Stop::within(GRACE_OF_SIGNALS), Asker::Signal),
                Asked::ListenAgain => self.listen_again(),
            },
        }
        false
    }

    /// Makes the socket anew: somebody who has to reach us found none, because the folder was tidied up.
    fn listen_again(&mut self) {
        self.socket = None;
        let id = self.node.state().node;
        if let Ok((socket, listener)) = Socket::bind(&self.runtime, id)
            && self.ear.listen_to(listener).is_ok()
        {
            self.socket = Some(socket);
        }
    }
}

/// Reads what there is. Cancel safe.
async fn read(output: Option<&Receiver>, chunk: &mut [u8]) -> io::Result<usize> {
    let Some(output) = output else { return Ok(0) };
    loop {
        output.readable().await?;
        match output.try_read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}
