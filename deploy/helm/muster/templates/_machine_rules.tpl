{{/* Rights in all namespaces that machines need. */}}
{{- define "muster.machineClusterRules" -}}
# Users write Machines; Muster writes their status, and the pools.
- apiGroups: [imperator.tenzen-y.io]
  resources: [machines]
  verbs: [get, list, watch]
- apiGroups: [imperator.tenzen-y.io]
  resources: [machinenodepools]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [imperator.tenzen-y.io]
  resources: [machines/status, machinenodepools/status]
  verbs: [update]
# Write labels, an annotation and taints to the nodes of a pool.
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch, patch]
# Remove the scheduling gates of guests, and count the capacity that all pods of a node use.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, patch]
# Read the label of namespaces whose pods may be guests.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get, list, watch]
# Write the reason for which a guest waits.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
# Register the webhook, and the policy that rejects pods that pretend to be reservations.
- apiGroups: [admissionregistration.k8s.io]
  resources:
    - mutatingwebhookconfigurations
    - validatingwebhookconfigurations
    - validatingadmissionpolicies
    - validatingadmissionpolicybindings
  verbs: [get, create, patch]
# Find registrations of the published operator, to report them.
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  verbs: [list]
# Read the Leases of the published operator and of a Muster with another machines namespace.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [c402a1f6.imperator.tenzen-y.io, muster-machines]
  verbs: [get]
# Read the PriorityClass of guests, which the chart creates.
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  resourceNames: [muster-guest]
  verbs: [get, list, watch]
{{- end -}}

{{/* Rights in the namespace of machines. */}}
{{- define "muster.machineRules" -}}
# Create and delete reservations.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [delete]
# Elect a leader, and share the webhook's certificate between replicas.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, create, update]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, update]
{{- end -}}
