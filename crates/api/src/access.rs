//! The authorization table of the core API: the verb and the subject of each method.
//!
//! A method without a case cannot be called: [`authorize_method()`] finds the case when a request arrives, and inserts
//! an [`Access`] into the request, by which the handler authorizes the access to the object.

mod authorize_method;

pub use authorize_method::authorize_method;
pub use muster_service::{Access, AccessTarget, Case, Verb};

const fn case(method: &'static str, verb: Verb, subject: AccessTarget) -> Case {
    Case::new(method, verb, subject)
}

/// One case for every method of every service.
pub const CASES: &[Case] = &[
    case("/muster.v1alpha2.ClusterService/CreateCluster", Verb::Change, AccessTarget::Namespace),
    case("/muster.v1alpha2.ClusterService/GetCluster", Verb::See, AccessTarget::Cluster),
    case("/muster.v1alpha2.ClusterService/ListCluster", Verb::See, AccessTarget::Clusters),
    case("/muster.v1alpha2.ClusterService/ListAllClusters", Verb::See, AccessTarget::Clusters),
    case("/muster.v1alpha2.ClusterService/DeleteCluster", Verb::Change, AccessTarget::Cluster),
    case("/muster.v1alpha2.ClusterService/UpdateCluster", Verb::Change, AccessTarget::Cluster),
    case("/muster.v1alpha2.ClusterService/PreviewUpdate", Verb::Change, AccessTarget::Cluster),
    case("/muster.v1alpha2.ClusterService/ScaleCluster", Verb::Change, AccessTarget::Cluster),
    case("/muster.v1alpha2.ClusterService/RestartHead", Verb::Change, AccessTarget::Cluster),
    case("/muster.v1alpha2.ClusterService/ListNodes", Verb::See, AccessTarget::Cluster),
    case("/muster.v1alpha2.ClusterService/ListEvents", Verb::See, AccessTarget::Cluster),
    case("/muster.v1alpha2.ClusterService/ListActions", Verb::See, AccessTarget::Cluster),
    case("/muster.v1alpha2.ClusterService/GetLogs", Verb::See, AccessTarget::Cluster),
    case("/muster.v1alpha2.ClusterService/GetEnvironment", Verb::SeeSecrets, AccessTarget::Cluster),
    case("/muster.v1alpha2.ClusterService/WatchClusters", Verb::See, AccessTarget::Clusters),
    case("/muster.v1alpha2.ActionService/GetAction", Verb::See, AccessTarget::Action),
    case("/muster.v1alpha2.ActionService/ListActions", Verb::See, AccessTarget::Actions),
    case("/muster.v1alpha2.ActionService/CancelAction", Verb::Change, AccessTarget::Action),
    case("/muster.v1alpha2.ActionService/SignalAction", Verb::Change, AccessTarget::Action),
    case("/muster.v1alpha2.FrameworkService/ListFrameworks", Verb::See, AccessTarget::Frameworks),
    case("/muster.v1alpha2.FrameworkService/InstallFramework", Verb::Change, AccessTarget::Frameworks),
    case("/muster.v1alpha2.FrameworkService/UpgradeFramework", Verb::Change, AccessTarget::Frameworks),
    case("/muster.v1alpha2.FrameworkService/RemoveFramework", Verb::Change, AccessTarget::Frameworks),
    case(
        "/muster.v1alpha2.ComputeTemplateService/CreateComputeTemplate",
        Verb::Change,
        AccessTarget::Namespace,
    ),
    case(
        "/muster.v1alpha2.ComputeTemplateService/GetComputeTemplate",
        Verb::See,
        AccessTarget::ComputeTemplate,
    ),
    case(
        "/muster.v1alpha2.ComputeTemplateService/ListComputeTemplates",
        Verb::See,
        AccessTarget::ComputeTemplates,
    ),
    case(
        "/muster.v1alpha2.ComputeTemplateService/ListAllComputeTemplates",
        Verb::See,
        AccessTarget::ComputeTemplates,
    ),
    case(
        "/muster.v1alpha2.ComputeTemplateService/DeleteComputeTemplate",
        Verb::Change,
        AccessTarget::ComputeTemplate,
    ),
    case("/muster.v1alpha2.ImageTemplateService/CreateImageTemplate", Verb::Change, AccessTarget::Namespace),
    case("/muster.v1alpha2.ImageTemplateService/GetImageTemplate", Verb::See, AccessTarget::ImageTemplate),
    case("/muster.v1alpha2.ImageTemplateService/ListImageTemplates", Verb::See, AccessTarget::ImageTemplates),
    case(
        "/muster.v1alpha2.ImageTemplateService/ListAllImageTemplates",
        Verb::See,
        AccessTarget::ImageTemplates,
    ),
    case("/muster.v1alpha2.ImageTemplateService/GetImageBuildLog", Verb::See, AccessTarget::ImageTemplate),
    case(
        "/muster.v1alpha2.ImageTemplateService/DeleteImageTemplate",
        Verb::Change,
        AccessTarget::ImageTemplate,
    ),
    case("/muster.v1alpha2.JobService/SubmitJob", Verb::Change, AccessTarget::Namespace),
    case("/muster.v1alpha2.JobService/GetJob", Verb::See, AccessTarget::Job),
    case("/muster.v1alpha2.JobService/ListJobs", Verb::See, AccessTarget::Jobs),
    case("/muster.v1alpha2.JobService/ListAllJobs", Verb::See, AccessTarget::Jobs),
    case("/muster.v1alpha2.JobService/GetJobLogs", Verb::See, AccessTarget::Job),
    case("/muster.v1alpha2.JobService/StopJob", Verb::Change, AccessTarget::Job),
    case("/muster.v1alpha2.AppService/ListApps", Verb::See, AccessTarget::Apps),
    case("/muster.v1alpha2.AppService/RegisterApp", Verb::Change, AccessTarget::Namespace),
    case("/muster.v1alpha2.AppService/RenewApp", Verb::Change, AccessTarget::App),
    case("/muster.v1alpha2.AppService/EndApp", Verb::Change, AccessTarget::App),
    case("/muster.v1alpha2.AppService/AttachApp", Verb::Change, AccessTarget::Cluster),
    case("/muster.v1alpha2.AppService/DetachApp", Verb::Change, AccessTarget::Cluster),
    case("/muster.v1alpha2.MachineService/ListMachineGroups", Verb::See, AccessTarget::Anyone),
    case("/muster.v1alpha2.UsageService/GetUsage", Verb::See, AccessTarget::Clusters),
    case("/muster.v1alpha2.UsageService/GetAllUsage", Verb::See, AccessTarget::Clusters),
    case("/muster.v1alpha2.UsageService/GetNodeUsage", Verb::See, AccessTarget::Cluster),
    case("/muster.v1alpha2.UsageService/GetActivity", Verb::See, AccessTarget::Cluster),
    case("/muster.v1alpha2.AdminService/Info", Verb::See, AccessTarget::Anyone),
    case("/muster.v1alpha2.AdminService/WhoAmI", Verb::See, AccessTarget::Anyone),
    case("/muster.v1alpha2.AdminService/ListShapes", Verb::See, AccessTarget::Anyone),
    case("/muster.v1alpha2.AdminService/Shutdown", Verb::Administer, AccessTarget::Server),
    case("/proto.ClusterService/CreateCluster", Verb::Change, AccessTarget::Namespace),
    case("/proto.ClusterService/GetCluster", Verb::See, AccessTarget::Cluster),
    case("/proto.ClusterService/ListCluster", Verb::See, AccessTarget::Clusters),
    case("/proto.ClusterService/ListAllClusters", Verb::See, AccessTarget::Clusters),
    case("/proto.ClusterService/DeleteCluster", Verb::Change, AccessTarget::Cluster),
    case("/proto.ComputeTemplateService/CreateComputeTemplate", Verb::Change, AccessTarget::Namespace),
    case("/proto.ComputeTemplateService/GetComputeTemplate", Verb::See, AccessTarget::ComputeTemplate),
    case("/proto.ComputeTemplateService/ListComputeTemplates", Verb::See, AccessTarget::ComputeTemplates),
    case("/proto.ComputeTemplateService/ListAllComputeTemplates", Verb::See, AccessTarget::ComputeTemplates),
    case("/proto.ComputeTemplateService/DeleteComputeTemplate", Verb::Change, AccessTarget::ComputeTemplate),
    case("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Verb::See, AccessTarget::Anyone),
    case("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Verb::See, AccessTarget::Anyone),
];

/// Returns the case of a method, by its gRPC path.
pub fn of(method: &str) -> Option<&'static Case> {
    CASES.iter().find(|case| case.operation == method)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use muster_proto::descriptor::POOL;
    use muster_proto::rest::METHODS;

    use super::*;

    #[test]
    fn every_method_and_route_has_a_case_and_every_case_a_method() {
        let ours = CASES.iter().filter(|case| !case.operation.starts_with("/grpc."));
        let cases: BTreeSet<&str> = ours.clone().map(|case| case.operation).collect();
        let routed: BTreeSet<&str> = METHODS.iter().map(|method| method.grpc_path).collect();
        assert_eq!(cases, routed);
        let declared: BTreeSet<String> = POOL
            .services()
            .flat_map(|service| {
                let name = service.full_name().to_owned();
                service.methods().map(move |method| format!("/{name}/{}", method.name())).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(cases, declared.iter().map(String::as_str).collect());
        assert_eq!(cases.len(), ours.count(), "a method has two cases");
    }

    #[test]
    fn a_method_that_changes_something_is_not_a_read() {
        for method in METHODS {
            let case = of(method.grpc_path).unwrap();
            let safe = method.rules.iter().all(|rule| rule.verb == http::Method::GET);
            assert_eq!(safe, matches!(case.verb, Verb::See | Verb::SeeSecrets), "{}", method.grpc_path);
        }
    }
}
