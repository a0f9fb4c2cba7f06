//! Environment variables of Domino's cluster scaler. Muster's own settings take precedence.

use std::path::PathBuf;

use super::Settings;

impl Settings {
    /// Applies the variables to settings that were not given. A server that is configured only by them serves what the scaler
    /// does: one namespace of the Kubernetes that it runs in, else of the kubeconfig.
    pub(super) fn with_scaler_variables(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
        let default = Self::default();
        if self.compute_namespace == default.compute_namespace {
            self.compute_namespace = variable("COMPUTE_NAMESPACE").unwrap_or(default.compute_namespace);
        }
        if self.log == default.log {
            self.log = variable("LOG_LEVEL").map_or(default.log, |level| log_level(&level));
        }
        let Some(url) = variable("DOMINO_NUCLEUS_URI").filter(|_| self.domino_url.is_none()) else {
            return self;
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
        self
    }
}

/// Returns the kubeconfig that kubectl would use, if it exists.
fn kubeconfig(variable: &impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let named = variable("KUBECONFIG").and_then(|paths| paths.split(':').next().map(PathBuf::from));
    let default = || Some(PathBuf::from(variable("HOME")?).join(".kube/config"));
    named.or_else(default).filter(|path| path.is_file())
}

/// Converts a log level of Python to a filter.
fn log_level(level: &str) -> String {
    match level.to_lowercase().as_str() {
        "warning" => "warn".to_owned(),
        "critical" | "fatal" => "error".to_owned(),
        "notset" => "trace".to_owned(),
        level => level.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(settings: Settings, variables: &[(&str, &str)]) -> Settings {
        settings.with_scaler_variables(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    const SCALER: [(&str, &str); 4] = [
        ("DOMINO_NUCLEUS_URI", "http://domino:80"),
        ("COMPUTE_NAMESPACE", "compute"),
        ("LOG_LEVEL", "WARNING"),
        ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
    ];

    #[test]
    fn the_variables_of_the_scaler_are_enough() {
        let settings = with(Settings::default(), &SCALER);
        assert_eq!(settings.domino_url.as_deref(), Some("http://domino:80"));
        assert_eq!((settings.compute_namespace.as_str(), settings.log.as_str()), ("compute", "warn"));
        assert_eq!((settings.in_cluster, settings.namespace.clone()), (true, vec!["compute".to_owned()]));
        assert_eq!(settings.schemes(), ["local", "domino"]);
    }

    #[test]
    fn musters_own_settings_take_precedence() {
        let own = Settings {
            domino_url: Some("http://own".to_owned()),
            compute_namespace: "own".to_owned(),
            log: "debug".to_owned(),
            ..Settings::default()
        };
        assert_eq!(with(own.clone(), &SCALER), own);
        assert_eq!(with(Settings::default(), &[]), Settings::default());
        assert_eq!(
            with(Settings::default(), &[("KUBERNETES_SERVICE_HOST", "10.0.0.1")]),
            Settings::default()
        );
    }

    #[test]
    fn outside_of_kubernetes_the_kubeconfig_is_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("config");
        std::fs::write(&file, "").expect("a file");
        let path = file.to_str().expect("a plain path");
        let settings = with(Settings::default(), &[SCALER[0], ("KUBECONFIG", &format!("{path}:/other"))]);
        assert_eq!((settings.kubeconfig.as_deref(), settings.in_cluster), (Some(file.as_path()), false));
        let without = with(Settings::default(), &[SCALER[0], ("HOME", path)]);
        assert_eq!((without.kubeconfig, without.namespace.len()), (None, 0));
    }
}
