//! `muster serve`: wires store, engine, providers and APIs, and runs them until a signal or an admin stops the server.

mod authentication;
mod data;
mod kubernetes;
mod listeners;
mod local;
mod logs;
mod machines;
mod ports;
mod settings;

use std::io::ErrorKind;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Error, Result};
use clap::Parser;
use muster_api::auth::LOCAL_SCHEME;
use muster_api::clustering::Clustering;
use muster_api::identity::IdentityApi;
use muster_api::probes::ServerMetrics;
use muster_api::scaler::{Scaler, ScalerSettings};
use muster_api::server::{Ports, Server, Tls};
use muster_api::{CoreApi, ServerInfo};
use muster_core::app::AppTimes;
use muster_core::policy::PolicyRules;
use muster_egress::{Domino, Egress};
use muster_engine::policy::Policies;
use muster_engine::ports::clock::{Clock, DatabaseClock, SystemClock};
use muster_engine::ports::machines::MachineProvider;
use muster_engine::ports::provider::Provider;
use muster_engine::{Config, Engine, EngineParts, LocalCode, Metrics};
use muster_kube::Kubernetes;
use muster_local::{LocalProvider, SimulatedProvider};
use muster_service::Service;
use muster_store::{Dialect, Store};
use reqwest::Url;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use authentication::Authentication;
use data::DataFolder;
pub(crate) use data::{LOCK_FILE, default_folder, make_folder};
use listeners::AnnouncementGuard;
pub(crate) use local::clusters_folder;
use settings::ServerSettings;

use crate::failure::Failure;
use crate::version;

/// Run the server
#[derive(Debug, Parser)]
pub(crate) struct Serve {
    #[command(flatten)]
    flags: settings::Flags,
    /// Print a complete configuration file with the defaults, and exit
    #[arg(long)]
    print_config: bool,
    /// Detach from the terminal and use the next free ports; commands start servers with it
    #[arg(long, hide = true)]
    detached: bool,
}

impl Serve {
    pub(crate) fn run(self) -> ExitCode {
        let Self { flags, print_config, detached } = self;
        if print_config {
            return crate::output::print(settings::DEFAULT_FILE);
        }
        let settings = flags.resolve().map_err(|error| Failure::bad_value(error).into());
        crate::output::exit(settings.and_then(|settings| run(&settings, detached)))
    }
}

#[tokio::main]
async fn run(settings: &ServerSettings, detached: bool) -> Result<ExitCode> {
    if detached {
        // The server gets a session of its own, so that signals to the terminal or to the starting command do not reach
        // it.
        rustix::process::setsid().context("cannot leave the terminal")?;
    }
    // Fails if a provider is installed already, which is then ring too.
    drop(rustls::crypto::ring::default_provider().install_default());
    logs::start(settings).map_err(Failure::bad_value)?;
    settings.log_warnings();
    let folder = DataFolder::open(&settings.data_dir)?;
    // Check all settings before starting anything.
    let domino = domino(settings)?;
    let Authentication { authenticators, accounts } =
        Authentication::open(settings, &folder, domino.clone()).await.map_err(Failure::bad_value)?;
    let tls = read_tls(settings).await.map_err(Failure::bad_value)?;
    let bind = if detached { ports::bind_free } else { Ports::bind };
    let ports = bind(settings.listen, settings.grpc_listen).map_err(port_refused)?;
    let store = open_store(settings, &folder).await?;
    if let Some(accounts) = &accounts {
        accounts.sign_with(&store.token_key().await?);
    }
    let mut server_metrics = ServerMetrics::default();
    let environments = local::environments(folder.path());
    let database = store.database_id().await?;
    let processes = local::processes(settings, folder.path(), environments.clone(), database.clone())?;
    let info = ServerInfo {
        version: version::LINE.to_owned(),
        server_id: Uuid::new_v4().to_string(),
        started_at: SystemClock.now(),
        dev: settings.dev,
        auth_schemes: authenticators.schemes().into_iter().map(str::to_owned).collect(),
    };
    let machines = machines::start(settings, info.server_id.clone(), &mut server_metrics).await?;
    let provider = machines.clone().map(|machines| machines as Arc<dyn MachineProvider>);
    let kubernetes = kubernetes::connect(settings, folder.path(), database, provider.clone()).await?;
    let config = engine_config(settings, &info);
    let engine = start_engine(settings, config, processes, kubernetes, store, &mut server_metrics).await?;
    let shutdown = CancellationToken::new();
    let service = Service::new(engine.clone()).with_shapes(settings.shape.clone()).with_machines(provider);
    let server = Server {
        api: CoreApi::new(service.clone(), info.clone(), shutdown.clone())
            .with_frameworks(Arc::new(environments)),
        clustering: Clustering::new(service.clone(), authenticators.clone(), tls.is_some()),
        scaler: Scaler::new(service.clone(), scaler_settings(settings), domino.map(|domino| domino as _)),
        identity: accounts.map(|accounts| IdentityApi::new(accounts, tls.is_some())),
        service,
        metrics: server_metrics,
        authenticators,
        allowed_hosts: settings.allowed_hosts.clone(),
        proto_numbering: settings.grpc_proto_numbering.into(),
        tls,
    };
    // Signals are handled before the announcement is written, since its reader may stop the server at once.
    let stop = listeners::stop_requested(shutdown)?;
    let announced = AnnouncementGuard::write(&folder, &info, &ports, server.tls.is_some(), detached)?;
    let served = server.run(ports, stop).await;
    drop(announced);
    if let Some(machines) = machines {
        machines.stop().await;
    }
    // The ports are closed, so no new request arrives: now the running actions are handed over.
    engine.stop().await;
    engine.store().close().await;
    served.map(|()| ExitCode::SUCCESS).context("the server failed")
}

/// Returns the client of the configured Domino deployment.
fn domino(settings: &ServerSettings) -> Result<Option<Arc<Domino>>> {
    let Some(url) = settings.domino() else { return Ok(None) };
    Ok(Some(Arc::new(Domino::new(&url, Arc::new(SystemClock))?)))
}

fn scaler_settings(settings: &ServerSettings) -> ScalerSettings {
    ScalerSettings {
        compute_namespace: settings.compute_namespace.clone(),
        max_replicas: settings.scaler_max_replicas,
    }
}

async fn read_tls(settings: &ServerSettings) -> Result<Option<Tls>> {
    match (&settings.tls_cert, &settings.tls_key) {
        (Some(certificate), Some(key)) => Ok(Some(Tls::read(certificate, key).await?)),
        _ => Ok(None),
    }
}

fn port_refused(error: std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::AddrInUse => Failure::in_use(error).into(),
        ErrorKind::AddrNotAvailable => Failure::bad_value(error).into(),
        _ => error.into(),
    }
}

async fn open_store(settings: &ServerSettings, folder: &DataFolder) -> Result<Store> {
    match &settings.database_url {
        Some(url) => Store::connect(url).await.context("cannot open the database"),
        None => {
            let file = folder.database()?;
            Store::open_file(&file)
                .await
                .with_context(|| format!("cannot open the database {}", file.display()))
        }
    }
}

/// Returns the limits of policies; health checks every second are for development only.
fn policy_rules(settings: &ServerSettings) -> PolicyRules {
    if settings.dev { PolicyRules { health_check_interval_min: 1 } } else { PolicyRules::default() }
}

fn engine_config(settings: &ServerSettings, info: &ServerInfo) -> Config {
    let own_user_only = info.auth_schemes.iter().all(|scheme| scheme == LOCAL_SCHEME);
    let local_code = if settings.dev || own_user_only { LocalCode::EveryCaller } else { LocalCode::Admins };
    Config {
        max_nodes_per_cluster: settings.max_nodes(),
        max_clusters_per_project: settings.max_clusters_per_project,
        parallel_actions: settings.parallel_actions,
        retention: settings.retention(),
        app_times: AppTimes { grace: settings.app_grace.0, lease: settings.app_lease.0 },
        local_code,
        projects: settings.project_namespaces.clone(),
        policy_rules: policy_rules(settings),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        version: version::LINE.to_owned(),
        ..Config::default()
    }
}

/// Returns the hosts that webhooks must not reach because they trust this server; none with `--dev`.
fn trusted_hosts(settings: &ServerSettings, kubernetes: Option<&Kubernetes>) -> Vec<String> {
    if settings.dev {
        return Vec::new();
    }
    let database = settings.database_url.as_ref().and_then(|url| Url::parse(url).ok());
    let database = database.as_ref().and_then(Url::host_str);
    let hosts = database.into_iter().chain(kubernetes.map(Kubernetes::api_server));
    hosts.map(|host| host.trim_matches(['[', ']']).to_owned()).collect()
}

async fn start_engine(
    settings: &ServerSettings,
    config: Config,
    processes: LocalProvider,
    kubernetes: Option<Kubernetes>,
    store: Store,
    server_metrics: &mut ServerMetrics,
) -> Result<Engine> {
    let mut rule = settings.egress();
    for host in trusted_hosts(settings, kubernetes.as_ref()) {
        rule.close(muster_egress::addresses(&host).await);
    }
    let mut providers: Vec<Arc<dyn Provider>> = vec![Arc::new(processes)];
    if let Some(kubernetes) = kubernetes {
        providers.push(Arc::new(kubernetes));
    }
    if settings.dev {
        let database = store.database_id().await?;
        providers.push(Arc::new(SimulatedProvider::new(&database, SystemClock)));
    }
    let metrics = Metrics::default();
    metrics.register(&mut server_metrics.registry);
    store.metrics().register(&mut server_metrics.registry);
    let clock: Arc<dyn Clock> = match store.dialect() {
        Dialect::Sqlite => Arc::new(SystemClock),
        Dialect::Postgres => Arc::new(DatabaseClock::new(Arc::new(SystemClock))),
    };
    let egress = Arc::new(Egress::new(rule)?);
    let parts = EngineParts {
        store,
        providers,
        policies: Policies::standard().with_probe(egress.clone()),
        hooks: egress,
        clock,
        config,
        metrics,
    };
    Engine::start(parts).await.context("cannot start the engine")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Some("postgres://muster:secret@db.example.org:5433/muster"), false, &["db.example.org"])]
    #[case(Some("postgres://muster@[2001:db8::5]/muster"), false, &["2001:db8::5"])]
    #[case(Some("postgres://muster@db.example.org/muster"), true, &[])]
    #[case(None, false, &[])]
    fn the_host_of_the_database_is_closed_to_webhooks(
        #[case] url: Option<&str>,
        #[case] dev: bool,
        #[case] hosts: &[&str],
    ) {
        let settings =
            ServerSettings { database_url: url.map(str::to_owned), dev, ..ServerSettings::default() };
        assert_eq!(trusted_hosts(&settings, None), hosts);
    }
}
