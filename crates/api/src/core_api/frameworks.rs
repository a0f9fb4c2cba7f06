//! The service of frameworks: what local processes can run, and bringing what they cannot run yet.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use muster_core::cluster::Framework;
use muster_proto::v1alpha2 as wire;
use muster_proto::v1alpha2::framework_service_server::FrameworkService;
use muster_proto::v1alpha2::{
    InstallFrameworkRequest, InstallFrameworkResponse, ListFrameworksRequest, ListFrameworksResponse,
};
use muster_service::ports::frameworks::{Found, Frameworks, Installation, Installing, Lacking};
use tonic::{Request, Response, Status, async_trait};

use super::{CoreApi, access};
use crate::access::Access;
use crate::error::ApiError;

type Answer<T> = Result<Response<T>, Status>;

#[async_trait]
impl FrameworkService for CoreApi {
    async fn list_frameworks(
        &self,
        request: Request<ListFrameworksRequest>,
    ) -> Answer<ListFrameworksResponse> {
        access(&request)?;
        let port = self.frameworks()?;
        // Each asks an interpreter, so all at once.
        let looks = Framework::ALL.iter().map(async |framework| match port.look(*framework).await {
            Ok(found) => usable(*framework, found),
            Err(lacking) => unusable(*framework, lacking),
        });
        let frameworks = futures::future::join_all(looks).await;
        Ok(Response::new(ListFrameworksResponse { frameworks }))
    }

    type InstallFrameworkStream = BoxStream<'static, Result<InstallFrameworkResponse, Status>>;

    async fn install_framework(
        &self,
        request: Request<InstallFrameworkRequest>,
    ) -> Answer<Self::InstallFrameworkStream> {
        let access = access(&request)?;
        let (framework, installation) = self.installation(&access, &request.get_ref().name)?;
        tracing::info!(%framework, by = %access.principal().name, "asked to install");
        let told = installation.map(move |told| told_of(framework, told)).boxed();
        Ok(Response::new(self.until_closed(told)))
    }
}

impl CoreApi {
    fn frameworks(&self) -> Result<&Arc<dyn Frameworks>, ApiError> {
        self.frameworks.as_ref().ok_or_else(|| {
            let sentence =
                "this server runs no local processes, and only these need a framework to be installed";
            ApiError::impossible(sentence).word("NoLocalProvider")
        })
    }

    fn installation(&self, access: &Access, name: &str) -> Result<(Framework, Installation), ApiError> {
        if !self.service.may_run_as_server(access.principal()) {
            let sentence =
                "what is installed runs as the server's own user: only admins may install here; ask one";
            return Err(ApiError::forbidden(sentence).word("LocalProcessesNeedAdmin"));
        }
        let port = self.frameworks()?;
        let framework: Framework = name
            .parse()
            .map_err(|unknown| ApiError::invalid(format!("{unknown}")).word("UnknownFramework"))?;
        let installation = port
            .install(framework)
            .map_err(|why| ApiError::impossible(why).word("FrameworkNotInstallable"))?;
        Ok((framework, installation))
    }

    /// The same until the doors close: then the installation ends, and whoever listens is told.
    fn until_closed<T: Send + 'static>(
        &self,
        told: BoxStream<'static, Result<T, Status>>,
    ) -> BoxStream<'static, Result<T, Status>> {
        let closing = self.service.closing().clone();
        let end = stream::once(std::future::ready(())).filter_map({
            let closing = closing.clone();
            move |()| {
                let sentence = "the server is stopping: install again once a server answers";
                let stopped = closing.is_cancelled().then(|| ApiError::unavailable(sentence));
                std::future::ready(stopped.map(|error| Err(error.word("ServerStopping").into())))
            }
        });
        told.take_until(closing.cancelled_owned()).chain(end).boxed()
    }
}

fn usable(framework: Framework, found: Found) -> wire::Framework {
    wire::Framework {
        name: framework.to_string(),
        usable: true,
        installable: true,
        version: found.version,
        interpreter: found.interpreter,
        source: found.source.to_owned(),
        ..wire::Framework::default()
    }
}

fn unusable(framework: Framework, lacking: Lacking) -> wire::Framework {
    wire::Framework {
        name: framework.to_string(),
        installable: lacking.command.is_some(),
        missing: lacking.what,
        command: lacking.command.unwrap_or_default(),
        ..wire::Framework::default()
    }
}

fn told_of(
    framework: Framework,
    told: Result<Installing, String>,
) -> Result<InstallFrameworkResponse, Status> {
    match told {
        Ok(Installing::Doing(progress)) => {
            Ok(InstallFrameworkResponse { progress, ..InstallFrameworkResponse::default() })
        }
        Ok(Installing::Done { found, already }) => Ok(InstallFrameworkResponse {
            framework: Some(usable(framework, found)),
            already_there: already,
            ..InstallFrameworkResponse::default()
        }),
        Err(why) => {
            tracing::warn!(%framework, %why, "not installed");
            Err(ApiError::impossible(why).word("InstallFailed").into())
        }
    }
}
