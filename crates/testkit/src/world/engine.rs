//! The program `engine`: an engine over the world, which a test controls through a socket.

mod requests;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Parser;
use muster_core::time::TimeSpan;
use muster_engine::policy::Policies;
use muster_engine::ports::clock::{DatabaseClock, SystemClock};
use muster_engine::{Config, Engine, EngineParts, Metrics};
use muster_store::Store;
use tokio::net::UnixListener;

pub(super) use requests::{EngineRequest, Response};

use super::ending::Ending;
use super::lines;
use super::provider::WorldProvider;

/// Runs an engine until standard input ends or SIGTERM arrives
#[derive(Debug, Parser)]
#[command(name = "engine")]
pub struct Args {
    /// The file, or the address of a PostgreSQL database.
    #[arg(long)]
    store: String,
    /// The world's socket.
    #[arg(long)]
    world: PathBuf,
    /// The socket for requests of a test
    #[arg(long)]
    socket: PathBuf,
    /// The duration of its lease, in milliseconds
    #[arg(long)]
    lease: u32,
    /// The interval between renewals of its lease, in milliseconds
    #[arg(long)]
    heartbeat: u32,
    /// The interval between polls for work, in milliseconds
    #[arg(long)]
    safety: u32,
}

impl Args {
    /// Runs the engine to its end.
    pub fn run(self) -> ExitCode {
        tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).init();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let ended = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(self.serve()));
        match ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("engine: {error:#}");
                ExitCode::FAILURE
            }
        }
    }

    async fn serve(self) -> anyhow::Result<()> {
        let Self { store, world, socket, lease, heartbeat, safety } = self;
        let ending = Ending::listen()?;
        let store = if store.starts_with("postgres") {
            Store::connect(&store).await
        } else {
            Store::open_file(Path::new(&store)).await
        };
        let parts = EngineParts {
            store: store.context("the database does not open")?,
            providers: vec![Arc::new(WorldProvider::new(&world))],
            policies: Policies::standard(),
            hooks: Arc::new(muster_engine::ports::webhook::NoWebhooks),
            clock: Arc::new(DatabaseClock::new(Arc::new(SystemClock))),
            config: Config {
                lease: TimeSpan::from_millis(lease),
                heartbeat: TimeSpan::from_millis(heartbeat),
                safety_period: TimeSpan::from_millis(safety),
                host: "test".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                ..Config::default()
            },
            metrics: Metrics::default(),
        };
        let listener = lines::listen(&socket)?;
        let engine = Engine::start(parts).await.context("the engine does not start")?;
        println!("the engine runs as {}", engine.id());
        tokio::select! {
            () = ending.wait() => {}
            ended = accept(&engine, listener) => ended?,
        }
        engine.stop().await;
        engine.store().close().await;
        println!("the engine has stopped");
        Ok(())
    }
}

async fn accept(engine: &Engine, listener: UnixListener) -> io::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let engine = engine.clone();
        tokio::spawn(async move {
            let asked = lines::request(&mut stream).await?;
            let response = Box::pin(requests::answer(&engine, asked)).await;
            lines::send(&mut stream, &response).await
        });
    }
}
