//! The gRPC service of frameworks: lists those that local processes can run, and installs, upgrades and removes them.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use muster_core::cluster::Framework;
use muster_proto::v1alpha2 as wire;
use muster_proto::v1alpha2::framework_service_server::FrameworkService;
use muster_proto::v1alpha2::{
    InstallFrameworkRequest, InstallFrameworkResponse, ListFrameworksRequest, ListFrameworksResponse,
    RemoveFrameworkRequest, UpgradeFrameworkRequest,
};
use muster_proto::wkt::Empty;
use muster_service::ports::frameworks::{
    FrameworkEnvironment, Frameworks, InstallProgress, Installation, MissingFramework,
};
use tonic::{Request, Response, Status, async_trait};

use super::{CoreApi, GrpcResult, access};
use crate::access::Access;
use crate::error::ApiError;
use crate::streams::until_closed;

#[async_trait]
impl FrameworkService for CoreApi {
    async fn list_frameworks(
        &self,
        request: Request<ListFrameworksRequest>,
    ) -> GrpcResult<ListFrameworksResponse> {
        access(&request)?;
        let port = self.frameworks()?;
        // The checks run concurrently, since each starts an interpreter.
        let checks = Framework::ALL.iter().map(async |framework| match port.environment(*framework).await {
            Ok(found) => usable(*framework, found),
            Err(lacking) => unusable(*framework, lacking),
        });
        let frameworks = futures::future::join_all(checks).await;
        Ok(Response::new(ListFrameworksResponse { frameworks }))
    }

    type InstallFrameworkStream = BoxStream<'static, Result<InstallFrameworkResponse, Status>>;

    async fn install_framework(
        &self,
        request: Request<InstallFrameworkRequest>,
    ) -> GrpcResult<Self::InstallFrameworkStream> {
        let access = access(&request)?;
        let InstallFrameworkRequest { name, packages } = request.into_inner();
        let (port, framework) = self.changeable(&access, &name)?;
        let installation = port.install(framework, packages).map_err(not_installable)?;
        tracing::info!(%framework, by = %access.principal().name, "asked to install");
        Ok(Response::new(self.messages(framework, installation)))
    }

    type UpgradeFrameworkStream = BoxStream<'static, Result<InstallFrameworkResponse, Status>>;

    async fn upgrade_framework(
        &self,
        request: Request<UpgradeFrameworkRequest>,
    ) -> GrpcResult<Self::UpgradeFrameworkStream> {
        let access = access(&request)?;
        let (port, framework) = self.changeable(&access, &request.get_ref().name)?;
        if !port.is_installed(framework) {
            let message = format!(
                "{framework} was not installed by Muster, so there is nothing to upgrade: `muster framework install \
                 {framework}` installs it"
            );
            return Err(ApiError::not_found(message).code("FrameworkNotInstalled").into());
        }
        let (service, environments) = (self.service.clone(), Arc::clone(port));
        let is_used = Box::pin(async move {
            let users = service.clusters_in_installed(environments.as_ref(), framework).await;
            // If the database is unavailable, the environments stay.
            users.map_or(true, |users| !users.is_empty())
        });
        let upgrade = port.upgrade(framework, is_used).map_err(not_installable)?;
        tracing::info!(%framework, by = %access.principal().name, "asked to upgrade");
        Ok(Response::new(self.messages(framework, upgrade)))
    }

    async fn remove_framework(&self, request: Request<RemoveFrameworkRequest>) -> GrpcResult<Empty> {
        let access = access(&request)?;
        let (port, framework) = self.changeable(&access, &request.get_ref().name)?;
        let users = self.service.clusters_in_installed(port.as_ref(), framework).await;
        let users = users.map_err(ApiError::from)?;
        if !users.is_empty() {
            let message = format!(
                "{framework} is used by {}: delete these clusters first, and then remove it",
                users.join(", ")
            );
            return Err(ApiError::impossible(message).code("FrameworkInUse").into());
        }
        tracing::info!(%framework, by = %access.principal().name, "asked to remove");
        match port.remove(framework).await {
            Ok(true) => Ok(Response::new(Empty {})),
            Ok(false) => {
                let message =
                    format!("{framework} was not installed by Muster, so there is nothing to remove");
                Err(ApiError::not_found(message).code("FrameworkNotInstalled").into())
            }
            Err(why) => Err(ApiError::impossible(why).code("RemoveFailed").into()),
        }
    }
}

fn not_installable(why: String) -> ApiError {
    ApiError::impossible(why).code("FrameworkNotInstallable")
}

impl CoreApi {
    fn frameworks(&self) -> Result<&Arc<dyn Frameworks>, ApiError> {
        self.frameworks.as_ref().ok_or_else(|| {
            let message =
                "this server runs no local processes, and only these need a framework to be installed";
            ApiError::impossible(message).code("NoLocalProvider")
        })
    }

    /// Returns the port and the framework of this name; refuses callers that may not change installed frameworks.
    fn changeable(&self, access: &Access, name: &str) -> Result<(&Arc<dyn Frameworks>, Framework), ApiError> {
        if !self.service.may_run_as_server(access.principal()) {
            let message =
                "what is installed runs as the server's own user: only admins may install it; ask an admin";
            return Err(ApiError::forbidden(message).code("LocalProcessesNeedAdmin"));
        }
        let port = self.frameworks()?;
        let framework: Framework = name
            .parse()
            .map_err(|unknown| ApiError::invalid(format!("{unknown}")).code("UnknownFramework"))?;
        Ok((port, framework))
    }

    /// Converts the progress of an installation to messages, until the server stops.
    fn messages(
        &self,
        framework: Framework,
        installation: Installation,
    ) -> BoxStream<'static, Result<InstallFrameworkResponse, Status>> {
        let messages = installation.map(move |messages| installation_message(framework, messages)).boxed();
        until_closed(
            self.service.closing(),
            messages,
            "the server is stopping: install again once a server answers",
        )
    }
}

fn usable(framework: Framework, found: FrameworkEnvironment) -> wire::Framework {
    wire::Framework {
        name: framework.to_string(),
        usable: true,
        installable: true,
        version: found.version,
        interpreter: found.interpreter,
        source: found.source.to_owned(),
        packages: found.packages,
        ..wire::Framework::default()
    }
}

fn unusable(framework: Framework, lacking: MissingFramework) -> wire::Framework {
    wire::Framework {
        name: framework.to_string(),
        installable: lacking.command.is_some(),
        missing: lacking.what,
        command: lacking.command.unwrap_or_default(),
        ..wire::Framework::default()
    }
}

fn installation_message(
    framework: Framework,
    messages: Result<InstallProgress, String>,
) -> Result<InstallFrameworkResponse, Status> {
    match messages {
        Ok(InstallProgress::Doing(progress)) => {
            Ok(InstallFrameworkResponse { progress, ..InstallFrameworkResponse::default() })
        }
        Ok(InstallProgress::Done { found, already }) => Ok(InstallFrameworkResponse {
            framework: Some(usable(framework, found)),
            already_there: already,
            ..InstallFrameworkResponse::default()
        }),
        Err(why) => {
            tracing::warn!(%framework, %why, "not installed");
            Err(ApiError::impossible(why).code("InstallFailed").into())
        }
    }
}
