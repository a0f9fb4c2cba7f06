{{- define "muster.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Name of objects without a namespace; unique, also for releases of the same name in two namespaces. */}}
{{- define "muster.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "muster.name" .) -}}
{{- end -}}

{{- define "muster.webhookName" -}}
{{- printf "%s-webhook" (include "muster.name" .) -}}
{{- end -}}

{{- define "muster.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "muster.labels" -}}
{{ include "muster.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "muster.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "muster.name" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.create is false: say in serviceAccount.name which account is used instead" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "muster.subjects" -}}
- kind: ServiceAccount
  name: {{ include "muster.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* Not empty if an object without a namespace is missing or belongs to this release: Helm refuses to install over an object
that it does not own. */}}
{{- define "muster.creates" -}}
{{- $release := (index . 0).Release -}}
{{- $found := lookup (index . 1) (index . 2) "" (index . 3) -}}
{{- $annotations := dig "metadata" "annotations" dict $found -}}
{{- if or (empty $found) (and (eq (get $annotations "meta.helm.sh/release-name") $release.Name) (eq (get $annotations "meta.helm.sh/release-namespace") $release.Namespace)) -}}
true
{{- end -}}
{{- end -}}

{{/* Refuses contradicting values before anything is created. */}}
{{- define "muster.check" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.database.urlSecret.name) -}}
{{- fail (printf "replicas is %d, and SQLite serves one server only: set database.urlSecret.name to a Secret with the URL of a PostgreSQL, or replicas to 1" (int .Values.replicas)) -}}
{{- end -}}
{{- if and .Values.machines.enabled (semverCompare "<1.30.0-0" .Capabilities.KubeVersion.Version) -}}
{{- fail (printf "machines.enabled is true, and this Kubernetes is %s: machines need 1.30 or later, for scheduling gates; set machines.enabled to false or upgrade Kubernetes" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- end -}}
