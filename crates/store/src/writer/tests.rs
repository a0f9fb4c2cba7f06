//! Tests of the writer: order, grouping, and failures.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::thread::ThreadId;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use muster_core::ids::ActionId;
use parking_lot::Mutex;
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::shared::Listener;
use crate::sqlite::open_writer;
use crate::transaction::{FEW, MANY, Touched};
use crate::value::args;

/// The end of a command after it has written its row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Ends,
    Fails,
    Panics,
    /// Takes as long as a commit on a slow disk.
    Lasts,
}

/// Writes a row, and returns the id of the writing thread.
struct Write {
    number: i64,
    rows: usize,
    then: Then,
}

impl Write {
    const fn one(number: i64) -> Self {
        Self { number, rows: FEW, then: Then::Ends }
    }

    const fn large(number: i64) -> Self {
        Self { number, rows: MANY, then: Then::Ends }
    }

    const fn then(self, then: Then) -> Self {
        Self { then, ..self }
    }
}

impl Command for Write {
    type Output = ThreadId;

    fn rows(&self) -> usize {
        self.rows
    }

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<ThreadId, StoreError>> {
        Box::pin(async move {
            tx.execute("INSERT INTO written VALUES ($1)", args![self.number]).await?;
            tx.touch(touched(self.number));
            match self.then {
                Then::Ends => {}
                Then::Fails => return Err(StoreError::ForeignCursor),
                Then::Panics => panic!("number {} panics", self.number),
                Then::Lasts => thread::sleep(crate::write_connection::QUICK),
            }
            Ok(thread::current().id())
        })
    }
}

fn touched(number: i64) -> Touched {
    Touched::Action(ActionId::from_uuid(Uuid::from_u128(u128::try_from(number).expect("a number"))))
}

/// All notifications, in their order.
#[derive(Default)]
struct Recorder(Mutex<Vec<Touched>>);

impl Listener for Recorder {
    fn on_commit(&self, touched: &[Touched]) {
        self.0.lock().extend(touched);
    }
}

struct World {
    writer: SqliteWriter,
    shared: Shared,
    recorder: Arc<Recorder>,
    file: PathBuf,
    _folder: TempDir,
}

impl World {
    fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        let file = folder.path().join("store.db");
        let connection = open_writer(&file).expect("a database");
        // Without a primary key, so that a row that is written twice is detected.
        connection.execute_batch("CREATE TABLE written (number INTEGER)").expect("a table");
        let shared = Shared::new();
        let recorder = Arc::new(Recorder::default());
        let listener: std::sync::Weak<Recorder> = Arc::downgrade(&recorder);
        shared.listen(listener);
        let writer = SqliteWriter::start(connection, shared.clone()).expect("a writer");
        Self { writer, shared, recorder, file, _folder: folder }
    }

    /// A second connection, which SQLite treats like another process.
    fn stranger(&self) -> Sqlite {
        Sqlite::open(&self.file).expect("a second connection")
    }

    fn written(&self) -> Vec<i64> {
        let stranger = self.stranger();
        let mut select = stranger.prepare("SELECT number FROM written ORDER BY rowid").expect("a statement");
        let rows = select.query_map([], |row| row.get(0)).expect("rows");
        rows.collect::<Result<_, _>>().expect("numbers")
    }

    fn notified(&self) -> Vec<Touched> {
        self.recorder.0.lock().clone()
    }

    fn commits(&self) -> u64 {
        self.shared.metrics().commits.get()
    }
}

fn here() -> ThreadId {
    thread::current().id()
}

#[tokio::test]
async fn a_caller_that_finds_the_writer_idle_writes_on_its_own_thread() {
    let world = World::new();
    assert_eq!(world.writer.run(Write::one(1)).now_or_never().expect("no waiting").unwrap(), here());
    assert_eq!(world.written(), [1]);
    assert_eq!(world.notified(), [touched(1)]);
}

#[tokio::test]
async fn a_large_command_is_not_written_on_the_callers_thread() {
    let world = World::new();
    assert_ne!(world.writer.run(Write::large(1)).await.unwrap(), here());
    assert_eq!(world.written(), [1]);
    assert_eq!(world.notified(), [touched(1)], "notified before it was answered");
}

#[tokio::test]
async fn commands_that_come_during_a_write_are_committed_together_and_fail_alone() {
    let world = World::new();
    let turn = world.writer.connection.lock();
    let mut all = Vec::new();
    for number in 1..=5 {
        let then = if number == 2 { Then::Fails } else { Then::Ends };
        let mut run = Box::pin(world.writer.run(Write::one(number).then(then)));
        assert!(futures::poll!(run.as_mut()).is_pending(), "there is one connection");
        all.push(run);
    }
    drop(turn);
    let answers = futures::future::join_all(all).await;
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true, true, true]);
    assert_eq!(world.written(), [1, 3, 4, 5]);
    assert_eq!(world.notified(), [1, 3, 4, 5].map(touched));
    assert_eq!(world.commits(), 1);
}

#[tokio::test]
async fn a_command_does_not_overtake_those_that_wait() {
    let world = World::new();
    let place = QueueSlot::acquire(&world.writer.places);
    assert_ne!(world.writer.run(Write::one(1)).await.unwrap(), here());
    drop(place);
    assert_eq!(world.writer.places.load(Ordering::Acquire), 0, "no command waits any more");
}

#[tokio::test]
async fn while_the_disk_is_slow_no_caller_writes_on_its_own_thread() {
    let world = World::new();
    assert_eq!(world.writer.run(Write::one(1).then(Then::Lasts)).await.unwrap(), here());
    assert_ne!(world.writer.run(Write::one(2).then(Then::Lasts)).await.unwrap(), here());
    assert_ne!(world.writer.run(Write::one(3)).await.unwrap(), here());
    assert_eq!(world.written(), [1, 2, 3]);
}

#[tokio::test]
async fn while_another_process_has_the_file_a_command_waits_without_holding_up_its_thread_and_is_run_once() {
    let world = World::new();
    let stranger = world.stranger();
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut run = Box::pin(world.writer.run(Write::one(1)));
    assert!(futures::poll!(run.as_mut()).is_pending(), "it was written although another has the file");
    assert_eq!(world.notified(), []);
    stranger.execute_batch("COMMIT").unwrap();
    assert_ne!(run.await.unwrap(), here());
    assert_eq!(world.written(), [1]);
    assert_eq!(world.notified(), [touched(1)]);
}

#[tokio::test]
async fn a_command_whose_caller_has_gone_is_carried_out_all_the_same() {
    let world = World::new();
    let turn = world.writer.connection.lock();
    let mut run = Box::pin(world.writer.run(Write::one(1)));
    assert!(futures::poll!(run.as_mut()).is_pending());
    drop(run);
    drop(turn);
    // Queued after the dropped command, which has been written when this one ends.
    world.writer.run(Write::large(2)).await.unwrap();
    assert_eq!(world.written(), [1, 2]);
}

#[tokio::test]
async fn a_command_that_fails_leaves_nothing_and_notifies_no_listener() {
    let world = World::new();
    for command in [Write::one(1), Write::large(2)] {
        assert!(world.writer.run(command.then(Then::Fails)).await.is_err());
    }
    world.writer.run(Write::one(3)).await.unwrap();
    assert_eq!(world.written(), [3]);
    assert_eq!(world.notified(), [touched(3)]);
}

#[tokio::test]
async fn a_command_that_panics_does_so_where_it_was_asked_for_and_leaves_a_store_that_works() {
    let world = World::new();
    for command in [Write::one(1), Write::large(2)] {
        let words = format!("number {} panics", command.number);
        let run = AssertUnwindSafe(world.writer.run(command.then(Then::Panics)));
        let panic = run.catch_unwind().await.expect_err("a panic");
        assert_eq!(panic.downcast_ref::<String>(), Some(&words));
        for command in [Write::one(3), Write::large(4)] {
            world.writer.run(command).await.unwrap();
        }
    }
    assert_eq!(world.written(), [3, 4, 3, 4]);
}

#[tokio::test]
async fn a_command_that_panics_takes_no_other_of_its_group_along() {
    let world = World::new();
    let turn = world.writer.connection.lock();
    let mut all = Vec::new();
    for number in 1..=3 {
        let then = if number == 2 { Then::Panics } else { Then::Ends };
        let run = AssertUnwindSafe(world.writer.run(Write::one(number).then(then))).catch_unwind();
        let mut run = Box::pin(run);
        assert!(futures::poll!(run.as_mut()).is_pending());
        all.push(run);
    }
    drop(turn);
    let answers = futures::future::join_all(all).await;
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(world.written(), [1, 3]);
    assert_eq!(world.commits(), 1);
}
