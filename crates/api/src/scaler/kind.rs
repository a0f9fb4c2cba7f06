//! The kinds of clusters, by the plural names of their custom resources.

use muster_core::cluster::Framework;

use super::scaler_error::ScalerError;

/// A kind of clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScalerKind {
    Dask,
    Ray,
    Spark,
}

impl ScalerKind {
    /// All kinds, in the order of their names.
    pub(super) const ALL: [Self; 3] = [Self::Dask, Self::Ray, Self::Spark];

    /// Parses the kind that a path names.
    pub(super) fn read(plural: &str) -> Result<Self, ScalerError> {
        Self::ALL.into_iter().find(|kind| kind.plural() == plural).ok_or_else(|| {
            let names = Self::ALL.map(|kind| format!("'{}'", kind.plural())).join(", ");
            ScalerError::bad("invalid_kind", format!("kind must be one of [{names}]"))
        })
    }

    /// Returns the name of the kind in paths.
    pub(super) const fn plural(self) -> &'static str {
        match self {
            Self::Dask => "daskclusters",
            Self::Ray => "rayclusters",
            Self::Spark => "sparkclusters",
        }
    }

    /// Returns the name of the kind in objects.
    pub(super) const fn object_kind(self) -> &'static str {
        match self {
            Self::Dask => "DaskCluster",
            Self::Ray => "RayCluster",
            Self::Spark => "SparkCluster",
        }
    }

    pub(super) const fn framework(self) -> Framework {
        match self {
            Self::Dask => Framework::Dask,
            Self::Ray => Framework::Ray,
            Self::Spark => Framework::Spark,
        }
    }

    /// Returns the key of the head in specs, which is also the component in names of pods.
    pub(super) const fn head(self) -> &'static str {
        match self {
            Self::Dask => "scheduler",
            Self::Ray => "head",
            Self::Spark => "master",
        }
    }

    /// Returns the name of the stateful set of a component in Domino's clusters.
    pub(super) fn stateful_set(self, cluster: &str, component: &str) -> String {
        format!("{cluster}-{}-{component}", self.framework())
    }

    /// Returns the name of the head's pod in Domino's clusters.
    pub(super) fn head_pod(self, cluster: &str) -> String {
        format!("{}-0", self.stateful_set(cluster, self.head()))
    }
}
