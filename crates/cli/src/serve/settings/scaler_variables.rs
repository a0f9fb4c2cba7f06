//! Environment variables of Domino's cluster scaler. Muster's own settings take precedence.

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::ServerSettings;

/// The settings that flags, variables of Muster or the file gave, even with the value of the default.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GivenSettings {
    pub(super) compute_namespace: bool,
    pub(super) log: bool,
}

impl ServerSettings {
    /// Applies the variables to settings that were not given. A server that is configured only by them serves what the
    /// scaler does: one namespace of the Kubernetes that it runs in, else of the kubeconfig.
    pub(super) fn with_scaler_variables(
        mut self,
        given: GivenSettings,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        if let Some(namespace) = variable("COMPUTE_NAMESPACE").filter(|_| !given.compute_namespace) {
            self.compute_namespace = namespace;
        }
        let domino = variable("DOMINO_NUCLEUS_URI");
        if let Some(level) = variable("LOG_LEVEL").filter(|_| !given.log) {
            match log_level(&level) {
                Some(level) => level.clone_into(&mut self.log),
                None if domino.is_some() => bail!("{}", not_a_level(&level)),
                // Many programs read this variable: without Domino's scaler it may be meant for another one.
                None => self.ignored_variables.push(format!("{}; it is ignored", not_a_level(&level))),
            }
        }
        let Some(url) = domino.filter(|_| self.domino_url.is_none()) else {
            return Ok(self);
        };
        self.domino_url = Some(url);
        if !self.has_kubernetes() && !self.dev {
            self.in_cluster = variable("KUBERNETES_SERVICE_HOST").is_some();
            if !self.in_cluster {
                self.kubeconfig = kubeconfig(&variable);
            }
            if self.has_kubernetes() && self.namespace.is_empty() {
                self.namespace = vec![self.compute_namespace.clone()];
            }
        }
        Ok(self)
    }
}

/// Returns the kubeconfig that kubectl would use, if it exists.
fn kubeconfig(variable: &impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let named = variable("KUBECONFIG").and_then(|paths| paths.split(':').next().map(PathBuf::from));
    let default = || Some(PathBuf::from(variable("HOME")?).join(".kube/config"));
    named.or_else(default).filter(|path| path.is_file())
}

/// Converts a log level, which may be one of Python, to a filter.
fn log_level(level: &str) -> Option<&'static str> {
    Some(match level.to_lowercase().as_str() {
        "off" => "off",
        "error" | "critical" | "fatal" => "error",
        "warn" | "warning" => "warn",
        "info" => "info",
        "debug" => "debug",
        "trace" | "notset" => "trace",
        _ => return None,
    })
}

fn not_a_level(level: &str) -> String {
    format!(
        "LOG_LEVEL is '{level}': must be a level such as info; set MUSTER_LOG, which takes precedence, or unset it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(
        settings: ServerSettings,
        given: GivenSettings,
        variables: &[(&str, &str)],
    ) -> Result<ServerSettings> {
        settings.with_scaler_variables(given, |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn with(settings: ServerSettings, variables: &[(&str, &str)]) -> ServerSettings {
        resolve(settings, GivenSettings::default(), variables).expect("valid variables")
    }

    const SCALER: [(&str, &str); 4] = [
        ("DOMINO_NUCLEUS_URI", "http://domino:80"),
        ("COMPUTE_NAMESPACE", "compute"),
        ("LOG_LEVEL", "WARNING"),
        ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
    ];

    #[test]
    fn the_variables_of_the_scaler_are_enough() {
        let settings = with(ServerSettings::default(), &SCALER);
        assert_eq!(settings.domino_url.as_deref(), Some("http://domino:80"));
        assert_eq!((settings.compute_namespace.as_str(), settings.log.as_str()), ("compute", "warn"));
        assert_eq!((settings.in_cluster, settings.namespace.clone()), (true, vec!["compute".to_owned()]));
        assert_eq!(settings.schemes(), ["local", "domino"]);
    }

    #[test]
    fn musters_own_settings_take_precedence() {
        let own = ServerSettings {
            domino_url: Some("http://own".to_owned()),
            compute_namespace: "own".to_owned(),
            log: "debug".to_owned(),
            ..ServerSettings::default()
        };
        let given = GivenSettings { compute_namespace: true, log: true };
        assert_eq!(resolve(own.clone(), given, &SCALER).expect("valid variables"), own);
        assert_eq!(with(ServerSettings::default(), &[]), ServerSettings::default());
        assert_eq!(
            with(ServerSettings::default(), &[("KUBERNETES_SERVICE_HOST", "10.0.0.1")]),
            ServerSettings::default()
        );
    }

    #[test]
    fn a_setting_that_was_given_as_its_default_takes_precedence_too() {
        let given = GivenSettings { compute_namespace: true, log: true };
        let settings = resolve(ServerSettings::default(), given, &SCALER[1..]).expect("valid variables");
        assert_eq!(settings, ServerSettings::default());
    }

    #[test]
    fn a_log_level_that_is_none_is_refused_only_of_the_scaler() {
        let foreign = [("LOG_LEVEL", "20")];
        let settings = with(ServerSettings::default(), &foreign);
        assert_eq!((settings.log.as_str(), settings.ignored_variables.len()), ("info", 1));
        let warning = &settings.ignored_variables[0];
        assert!(warning.contains("LOG_LEVEL is '20'") && warning.contains("ignored"), "{warning}");
        let of_scaler = [SCALER[0], foreign[0]];
        let error =
            resolve(ServerSettings::default(), GivenSettings::default(), &of_scaler).expect_err("no level");
        assert!(error.to_string().starts_with("LOG_LEVEL is '20': must be a level"), "{error}");
        let given = GivenSettings { log: true, ..GivenSettings::default() };
        resolve(ServerSettings::default(), given, &of_scaler).expect("MUSTER_LOG takes precedence");
    }

    #[test]
    fn outside_of_kubernetes_the_kubeconfig_is_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("config");
        std::fs::write(&file, "").expect("a file");
        let path = file.to_str().expect("a plain path");
        let settings =
            with(ServerSettings::default(), &[SCALER[0], ("KUBECONFIG", &format!("{path}:/other"))]);
        assert_eq!((settings.kubeconfig.as_deref(), settings.in_cluster), (Some(file.as_path()), false));
        let without = with(ServerSettings::default(), &[SCALER[0], ("HOME", path)]);
        assert_eq!((without.kubeconfig, without.namespace.len()), (None, 0));
    }
}
