//! Projects and their namespaces.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The mapping of projects to namespaces: as configured, otherwise the same name. No two projects share a namespace,
/// so that the mapping is reversible.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>")]
pub struct ProjectNamespaces(BTreeMap<String, String>);

impl TryFrom<BTreeMap<String, String>> for ProjectNamespaces {
    type Error = String;

    /// Reads the configured namespaces of projects. An empty or shared namespace is refused.
    fn try_from(configured: BTreeMap<String, String>) -> Result<Self, String> {
        let mut homes: BTreeMap<&str, &str> = BTreeMap::new();
        for (project, namespace) in &configured {
            if namespace.is_empty() {
                return Err(format!(
                    "project '{project}' has an empty namespace: set one, or remove the entry"
                ));
            }
            if let Some(other) = homes.insert(namespace, project) {
                return Err(format!(
                    "projects '{other}' and '{project}' both have namespace '{namespace}': give each its own"
                ));
            }
        }
        Ok(Self(configured))
    }
}

impl ProjectNamespaces {
    /// The namespace of a project; none if the namespace of its name belongs to another.
    pub fn namespace_of<'a>(&'a self, project: &'a str) -> Option<&'a str> {
        match self.0.get(project) {
            Some(namespace) => Some(namespace),
            None => self.owner(project).is_none().then_some(project),
        }
    }

    /// The project of a namespace; none if the project of its name has another namespace.
    pub fn project_of<'a>(&'a self, namespace: &'a str) -> Option<&'a str> {
        match self.owner(namespace) {
            Some(project) => Some(project),
            None => (!self.0.contains_key(namespace)).then_some(namespace),
        }
    }

    /// The project that a namespace is configured for.
    fn owner(&self, namespace: &str) -> Option<&str> {
        self.0.iter().find(|(_, home)| *home == namespace).map(|(project, _)| project.as_str())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn projects(pairs: &[(&str, &str)]) -> Result<ProjectNamespaces, String> {
        let pairs = pairs.iter().map(|(project, namespace)| ((*project).to_owned(), (*namespace).to_owned()));
        pairs.collect::<BTreeMap<_, _>>().try_into()
    }

    #[rstest]
    #[case::named_alike("other", Some("other"), Some("other"))]
    #[case::given_one("demo", Some("team-a"), None)]
    #[case::taken_by_demo("team-a", None, Some("demo"))]
    #[case::given_its_own("same", Some("same"), Some("same"))]
    fn a_project_has_one_namespace_and_a_namespace_belongs_to_one_project(
        #[case] name: &str,
        #[case] namespace: Option<&str>,
        #[case] project: Option<&str>,
    ) {
        let projects = projects(&[("demo", "team-a"), ("same", "same")]).unwrap();
        assert_eq!((projects.namespace_of(name), projects.project_of(name)), (namespace, project));
    }

    #[test]
    fn each_direction_is_the_other_one_back() {
        let projects = projects(&[("a", "b"), ("b", "c"), ("x", "x")]).unwrap();
        for name in ["a", "b", "c", "x", "y"] {
            if let Some(namespace) = projects.namespace_of(name) {
                assert_eq!(projects.project_of(namespace), Some(name));
            }
            if let Some(project) = projects.project_of(name) {
                assert_eq!(projects.namespace_of(project), Some(name));
            }
        }
    }

    #[test]
    fn two_projects_have_two_namespaces() {
        let why = projects(&[("a", "n"), ("b", "n")]).unwrap_err();
        assert_eq!(why, "projects 'a' and 'b' both have namespace 'n': give each its own");
        assert!(projects(&[("a", "")]).unwrap_err().contains("empty namespace"));
    }
}
