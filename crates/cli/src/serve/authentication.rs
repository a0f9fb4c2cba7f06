//! Builds the authenticators that the settings name.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use muster_api::auth::{
    Accounts, Authenticators, DOMINO_SCHEME, DominoUsers, KUBERNETES_SCHEME, Local, NoAuthentication, OsUser,
    Tokens,
};
use muster_egress::Domino;
use muster_engine::ports::clock::{Clock as _, SystemClock};

use super::data::DataFolder;
use super::kubernetes;
use super::settings::ServerSettings;

/// The means by which callers are authenticated.
pub(super) struct Authentication {
    /// The authenticators, in the order of the settings.
    pub(super) authenticators: Authenticators,
    /// The accounts that can log in, if they are configured.
    pub(super) accounts: Option<Arc<Accounts>>,
}

impl Authentication {
    /// Opens the authenticators of all configured schemes.
    pub(super) async fn open(
        settings: &ServerSettings,
        folder: &DataFolder,
        domino: Option<Arc<Domino>>,
    ) -> Result<Self> {
        let (mut chain, mut accounts) = (Authenticators::new(), None);
        for scheme in settings.schemes() {
            chain = match scheme.split_once(':') {
                None if scheme == "local" => {
                    let local = Local::open(folder.path(), OsUser::current());
                    chain.with(local.context("cannot store the token of this machine's user")?)
                }
                None if scheme == KUBERNETES_SCHEME => chain.with(kubernetes::tokens(settings).await?),
                None if scheme == DOMINO_SCHEME => {
                    let domino = domino
                        .clone()
                        .context("auth is 'domino', but no Domino is configured: set domino_url")?;
                    chain.with(DominoUsers::new(domino))
                }
                None if scheme == "none" => {
                    let addresses = [settings.listen, settings.grpc_listen];
                    chain.with(NoAuthentication::new(settings.dev, &addresses).context("auth is 'none'")?)
                }
                Some(("tokens", file)) => {
                    let tokens = Tokens::open(Path::new(file));
                    chain.with(tokens.with_context(|| format!("cannot read the tokens in {file}"))?)
                }
                Some(("accounts", file)) if accounts.is_none() => {
                    let opened = Accounts::open(Path::new(file), || SystemClock.now());
                    let opened =
                        Arc::new(opened.with_context(|| format!("cannot read the accounts in {file}"))?);
                    accounts = Some(Arc::clone(&opened));
                    chain.with_shared(opened)
                }
                Some(("accounts", _)) => bail!("auth has 'accounts' twice: put all accounts into one file"),
                _ => {
                    bail!(
                        "auth is '{scheme}': must be local, none, tokens:FILE, accounts:FILE, kubernetes or domino"
                    )
                }
            };
        }
        Ok(Self { authenticators: chain, accounts })
    }
}
