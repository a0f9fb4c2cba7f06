{{/* What is done in the namespaces that are served. */}}
{{- define "muster.rules" -}}
# KubeRay: made, followed, changed and deleted.
- apiGroups: [ray.io]
  resources: [rayclusters]
  verbs: [get, list, watch, create, patch, delete]
# The Dask operator: the same; what it makes of a DaskCluster is followed and resized.
- apiGroups: [kubernetes.dask.org]
  resources: [daskclusters]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [kubernetes.dask.org]
  resources: [daskworkergroups]
  verbs: [get, list, watch, patch]
- apiGroups: [kubernetes.dask.org]
  resources: [daskautoscalers]
  verbs: [get, list, watch, create, patch]
# Domino's operator: clusters that others made.
- apiGroups: [distributed-compute.dominodatalab.com]
  resources: [rayclusters, daskclusters, sparkclusters]
  verbs: [get, list, watch, patch, delete]
# Spark without an operator is two Deployments and two Services; Dask's workers are Deployments.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, delete]
# Nodes that are pods; heads that are restarted; workers that are chosen to go.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
# What pods use, for `muster top`: of metrics-server, where that is installed.
- apiGroups: [metrics.k8s.io]
  resources: [pods]
  verbs: [list]
# Whether a namespace is there, before something is to be made in it.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]
# Compute templates are ConfigMaps. So are configuration sets and Spark's configuration files, which are only read (get).
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, delete]
# Apps that use clusters: found, followed by their label, and labelled. Deployments and pods are above.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, patch]
# The same, and what a Spark master leaves behind that was deleted without it.
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [get, list, watch, patch, delete]
# Jobs are apps too; images are built, and the commands of jobs run, by Jobs.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
# Why something does not come up.
- apiGroups: [""]
  resources: [events]
  verbs: [list, watch]
# The token by which a Ray cluster knows its clients, for `muster env`.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
{{- end -}}

{{/* What has no namespace. */}}
{{- define "muster.clusterRules" -}}
{{- if not .Values.instanceId -}}
# Its UID tells this Kubernetes from others.
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [kube-system]
  verbs: [get]
{{ end -}}
# Which operators are installed.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [list, watch]
# Whether the machine below a pod is ready.
- apiGroups: [""]
  resources: [nodes]
  verbs: [get]
{{- if has "kubernetes" .Values.auth }}
# Who is calling.
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
# Whether callers may create pods themselves.
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}
{{- end -}}
