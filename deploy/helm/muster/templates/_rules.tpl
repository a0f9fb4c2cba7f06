{{/* Rights in the served namespaces. */}}
{{- define "muster.rules" -}}
# KubeRay's clusters.
- apiGroups: [ray.io]
  resources: [rayclusters]
  verbs: [get, list, watch, create, patch, delete]
# The Dask operator's clusters, and the worker groups and autoscalers that belong to them.
- apiGroups: [kubernetes.dask.org]
  resources: [daskclusters]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [kubernetes.dask.org]
  resources: [daskworkergroups]
  verbs: [get, list, watch, patch]
- apiGroups: [kubernetes.dask.org]
  resources: [daskautoscalers]
  verbs: [get, list, watch, create, patch]
# Clusters of Domino's operator, which Muster discovers and does not create.
- apiGroups: [distributed-compute.dominodatalab.com]
  resources: [rayclusters, daskclusters, sparkclusters]
  verbs: [get, list, watch, patch, delete]
# A native Spark cluster is two Deployments and two Services. The Dask operator creates Deployments for workers.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, delete]
# Create, label and delete nodes that are single pods; delete pods of clusters that are restarted or removed.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
# Cpu and memory usage of pods from metrics-server, if installed, for `muster top`.
- apiGroups: [metrics.k8s.io]
  resources: [pods]
  verbs: [list]
# Check that a namespace exists before a cluster is created in it.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]
# Compute templates are ConfigMaps. Stored configurations and Spark's configuration files are too, and need only get.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, delete]
# Apps that use clusters are found by name, watched by their label, and labelled. See above for Deployments and pods.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, patch]
# Apps; delete is for a leftover ReplicaSet of a Spark master whose Deployment was deleted without it.
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [get, list, watch, patch, delete]
# Apps; Jobs also build images and run the commands of `muster job`.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
# Reasons of pods and clusters that do not start.
- apiGroups: [""]
  resources: [events]
  verbs: [list, watch]
# The authentication token of a Ray cluster, for `muster env`.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
{{- end -}}

{{/* Rights to objects without a namespace. */}}
{{- define "muster.clusterRules" -}}
{{- if not .Values.instanceId -}}
# The UID of kube-system identifies this Kubernetes.
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [kube-system]
  verbs: [get]
{{ end -}}
# Discover the installed operators.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [list, watch]
# Check that the machine of a pod is ready.
- apiGroups: [""]
  resources: [nodes]
  verbs: [get]
{{- if has "kubernetes" .Values.auth }}
# Authenticate callers.
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
# Authorize callers: members are those who may create pods in the namespace.
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}
{{- end -}}
