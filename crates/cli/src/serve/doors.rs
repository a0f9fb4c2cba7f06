//! Who may come in, where the doors are, and when they close.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use muster_api::ServerInfo;
use muster_api::auth::{
    Accounts, Authenticators, DOMINO_SCHEME, DominoUsers, KUBERNETES_SCHEME, Local, NoAuthentication, OsUser,
    Tokens,
};
use muster_api::server::Ports;
use muster_egress::Domino;
use muster_engine::ports::clock::{Clock as _, SystemClock};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::data::DataFolder;
use super::kubernetes;
use super::settings::Settings;
use crate::announcement::Announcement;

/// Who may come in.
pub(super) struct Known {
    /// Whoever vouches for callers, in the order of the settings.
    pub(super) authenticators: Authenticators,
    /// Those who log in.
    pub(super) accounts: Option<Arc<Accounts>>,
}

/// Whoever vouches for callers, in the order of the settings.
pub(super) async fn known(
    settings: &Settings,
    folder: &DataFolder,
    domino: Option<Arc<Domino>>,
) -> Result<Known> {
    let (mut chain, mut accounts) = (Authenticators::new(), None);
    for scheme in settings.schemes() {
        chain = match scheme.split_once(':') {
            None if scheme == "local" => {
                let local = Local::open(folder.path(), OsUser::current());
                chain.with(local.context("cannot keep the token of this machine's user")?)
            }
            None if scheme == KUBERNETES_SCHEME => chain.with(kubernetes::tokens(settings).await?),
            None if scheme == DOMINO_SCHEME => {
                let domino =
                    domino.clone().context("auth is 'domino', and there is none to ask: set domino_url")?;
                chain.with(DominoUsers::new(domino))
            }
            None if scheme == "none" => {
                let addresses = [settings.listen, settings.grpc_listen];
                chain.with(NoAuthentication::new(settings.dev, &addresses).context("auth is 'none'")?)
            }
            Some(("tokens", file)) => {
                let tokens = Tokens::open(Path::new(file));
                chain.with(tokens.with_context(|| format!("cannot use the tokens of {file}"))?)
            }
            Some(("accounts", file)) if accounts.is_none() => {
                let opened = Accounts::open(Path::new(file), || SystemClock.now());
                let opened = Arc::new(opened.with_context(|| format!("cannot use the accounts of {file}"))?);
                accounts = Some(Arc::clone(&opened));
                chain.with_shared(opened)
            }
            Some(("accounts", _)) => bail!("auth has 'accounts' twice: put all accounts into one file"),
            _ => {
                bail!(
                    "auth is '{scheme}': local, none, tokens:FILE, accounts:FILE, kubernetes or domino is expected"
                )
            }
        };
    }
    Ok(Known { authenticators: chain, accounts })
}

/// Commands find this server; no longer when it ends in order.
pub(super) struct Announced {
    file: PathBuf,
}

impl Announced {
    pub(super) fn new(
        folder: &DataFolder,
        info: &ServerInfo,
        ports: &Ports,
        tls: bool,
        detached: bool,
    ) -> Result<Self> {
        let (rest, grpc) = (ports.rest.local_addr()?, ports.grpc.local_addr()?);
        let announcement = Announcement {
            server_id: info.server_id.clone(),
            version: info.version.clone(),
            rest,
            grpc,
            tls,
            pid: std::process::id().cast_signed(),
            detached,
        };
        announcement.write(folder.path())?;
        tracing::info!(%rest, %grpc, data = %folder.path().display(), "serving");
        Ok(Self { file: Announcement::file(folder.path()) })
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        // One that is left behind names a process that is gone; commands check that.
        drop(std::fs::remove_file(&self.file));
    }
}

/// Ends when a signal or an admin says so.
pub(super) fn stop_requested(
    shutdown: CancellationToken,
) -> Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = shutdown.cancelled() => {}
        }
        tracing::info!("stopping: running actions are handed over, clusters go on");
    })
}
