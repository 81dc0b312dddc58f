{{/* Names and labels. */}}
{{- define "slicewright.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "slicewright.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "slicewright.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "slicewright.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "slicewright.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "slicewright.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is empty: with serviceAccount.create=false, name the account that the operator shall use" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "slicewright.selectorLabels" -}}
app.kubernetes.io/name: {{ include "slicewright.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{/* The labels of the pod that releases the nodes before an uninstall. */}}
{{- define "slicewright.releaseSelectorLabels" -}}
app.kubernetes.io/name: {{ include "slicewright.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: release
{{- end -}}

{{- define "slicewright.labels" -}}
{{ include "slicewright.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: slicewright
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* metadata of an object: . is a list of the root, the name, annotations, and perhaps labels of its own. */}}
{{- define "slicewright.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 1 }}
labels:
  {{- include "slicewright.labels" $root | nindent 2 }}
  {{- if gt (len .) 3 }}
  {{- with index . 3 }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- end }}
{{- with merge (dict) (index . 2) $root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A short name would be looked for in whatever registry the node prefers, where it is nobody's or a stranger's. */}}
{{- define "slicewright.image" -}}
{{- $image := .Values.image -}}
{{- if not (or $image.registry $image.digest) -}}
{{- fail (printf "image.registry and image.digest are empty, and no image of Slicewright is published yet: build one with `cargo xtask image operator`, then load it into kind (`kind load image-archive target/images/operator.tar`) or CRC (`podman load`, then push it to the cluster's own registry) and say --set image.registry=localhost or that registry, or push it to a registry of your own and say --set image.registry=REGISTRY; docs/guides/images.md has each step (the image would be %s:%s)" $image.repository (default .Chart.AppVersion $image.tag)) -}}
{{- end -}}
{{- with $image.registry }}{{ . | trimSuffix "/" }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest -}}
@{{ $image.digest }}
{{- else -}}
:{{ default .Chart.AppVersion $image.tag }}
{{- end -}}
{{- end -}}

{{/* References to Secrets as a pod has them; plain names are what this chart took before. */}}
{{- define "slicewright.imagePullSecrets" -}}
{{- range . }}
- name: {{ if kindIs "string" . }}{{ . }}{{ else }}{{ .name }}{{ end }}
{{- end }}
{{- end -}}

{{/* "true" where the cluster is seen to be OpenShift, or is said to be. */}}
{{- define "slicewright.onOpenShift" -}}
{{- $adapt := .Values.openshift.adaptSecurityContext -}}
{{- if or (eq $adapt "force") (and (eq $adapt "auto") (.Capabilities.APIVersions.Has "security.openshift.io/v1")) -}}true{{- end -}}
{{- end -}}

{{/* On OpenShift the namespace's range says which ids a pod runs as. */}}
{{- define "slicewright.podSecurityContext" -}}
{{- $context := .Values.podSecurityContext -}}
{{- if eq (include "slicewright.onOpenShift" .) "true" -}}
{{- $context = omit $context "runAsUser" "runAsGroup" "fsGroup" -}}
{{- end -}}
{{- toYaml $context -}}
{{- end -}}

{{/* Where our pods may connect to: DNS and the API server. */}}
{{- define "slicewright.egress" -}}
{{- $policy := .Values.networkPolicy -}}
- ports:
    - port: 53
      protocol: UDP
    - port: 53
      protocol: TCP
    # OpenShift's DNS pods.
    - port: 5353
      protocol: UDP
    - port: 5353
      protocol: TCP
  to:
    {{- if $policy.dnsTo }}
    {{- toYaml $policy.dnsTo | nindent 4 }}
    {{- else }}
    - namespaceSelector:
        matchExpressions:
          - key: kubernetes.io/metadata.name
            operator: In
            values: [kube-system, openshift-dns]
    # A cache on the node itself (NodeLocal DNSCache).
    - ipBlock:
        cidr: 169.254.0.0/16
    {{- end }}
- ports:
    {{- range $policy.apiServerPorts }}
    - port: {{ . }}
    {{- end }}
  {{- with $policy.apiServerTo }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* The agent's image; what is not said of it is as of the operator's. */}}
{{- define "slicewright.agentImage" -}}
{{- $image := .Values.agent.image -}}
{{- $registry := default .Values.image.registry $image.registry -}}
{{- if not (or $registry $image.digest) -}}
{{- fail (printf "agent.enabled is true, and agent.image.registry, image.registry and agent.image.digest are empty: no image of the agent is published yet; build one with `cargo xtask image agent`, push it to a registry of your own and say --set agent.image.registry=REGISTRY, or load it into kind (`kind load image-archive target/images/agent.tar`) and say localhost (the image would be %s:%s)" $image.repository (default .Chart.AppVersion $image.tag)) -}}
{{- end -}}
{{- with $registry }}{{ . | trimSuffix "/" }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest -}}
@{{ $image.digest }}
{{- else -}}
:{{ default .Chart.AppVersion $image.tag }}
{{- end -}}
{{- end -}}

{{/* metadata of an object of the agent: . is a list of the root, the name, and labels of its own. */}}
{{- define "slicewright.agentMetadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 1 }}
labels:
  {{- merge (dict "app.kubernetes.io/component" "agent") (index . 2) (include "slicewright.labels" $root | fromYaml) | toYaml | nindent 2 }}
{{- with $root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
