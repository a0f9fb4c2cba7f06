{{/* What machines need everywhere. */}}
{{- define "muster.machineClusterRules" -}}
# Machines are written by their users, pools by Muster.
- apiGroups: [imperator.tenzen-y.io]
  resources: [machines]
  verbs: [get, list, watch]
- apiGroups: [imperator.tenzen-y.io]
  resources: [machinenodepools]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [imperator.tenzen-y.io]
  resources: [machines/status, machinenodepools/status]
  verbs: [update]
# Labels, an annotation and taints of the nodes of a pool.
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch, patch]
# Guests of all namespaces: their gates are removed, and all pods of a node take room.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, patch]
# Which namespaces have guests.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get, list, watch]
# Guests say why they wait.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
# The registration of the webhook, and the policy that keeps pods from passing for reservations.
- apiGroups: [admissionregistration.k8s.io]
  resources:
    - mutatingwebhookconfigurations
    - validatingwebhookconfigurations
    - validatingadmissionpolicies
    - validatingadmissionpolicybindings
  verbs: [get, create, patch]
# Registrations of the published operator are reported.
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  verbs: [list]
# The Leases of the published operator and of a Muster with another namespace.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [c402a1f6.imperator.tenzen-y.io, muster-machines]
  verbs: [get]
# The class of guests, which the chart creates.
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  verbs: [get]
{{- end -}}

{{/* What machines need in their namespace. */}}
{{- define "muster.machineRules" -}}
# Reservations.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [delete]
# The leader, and the webhook's certificate, which the replicas share.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, create, update]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, update]
{{- end -}}
