{{/* What the operator has to do with Kueue. YAML takes a plain `off` for false. */}}
{{- define "slicewright.kueue" -}}
{{- $kueue := .Values.kueue -}}
{{- if or (kindIs "bool" $kueue) (kindIs "invalid" $kueue) -}}off{{- else -}}{{ $kueue }}{{- end -}}
{{- end -}}
{{/* What the operator has to do with hardware profiles; the same. */}}
{{- define "slicewright.hardwareProfiles" -}}
{{- $mode := (.Values.hardwareProfiles).mode -}}
{{- if or (kindIs "bool" $mode) (kindIs "invalid" $mode) -}}off{{- else -}}{{ $mode }}{{- end -}}
{{- end -}}
{{/* The operator's flags, without those that say what `slicewright-operator --help` has as the default: a flag wins
     over the environment, and one that is not there leaves the setting to whoever sets the environment, as OLM's
     Subscription does. A test compares the defaults here with those of the operator. */}}
{{- define "slicewright.arguments" -}}
{{- $values := .Values -}}
{{- $settings := list
  (list "gpu-operator-namespace" $values.gpuOperator.namespace "nvidia-gpu-operator")
  (list "agent-namespace" (default "slicewright-agent" ($values.agent).namespace) "slicewright-agent")
  (list "administrators-map" $values.gpuOperator.administratorsMap "")
  (list "map-settle" $values.rollout.mapSettle "2m")
  (list "cordon-settle" $values.rollout.cordonSettle "5s")
  (list "batch-delay" $values.rollout.batchDelay "500ms")
  (list "stable-for" $values.rollout.stableFor "20s")
  (list "blocked-after" $values.rollout.blockedAfter "2m")
  (list "parallel-nodes" $values.rollout.parallelNodes "8")
  (list "hardware-profiles" (include "slicewright.hardwareProfiles" .) "off")
  (list "hardware-profile-queues" (join "," (default list ($values.hardwareProfiles).queues)) "")
  (list "hardware-profile-hold" (default "10m" ($values.hardwareProfiles).hold) "10m")
  (list "kueue" (include "slicewright.kueue" .) "off")
  (list "tell-names" $values.tellNames "own-namespace")
  (list "log-format" $values.logging.format "json")
  (list "log" $values.logging.filter "info")
-}}
{{- $flags := list -}}
{{- range $settings -}}
{{- $value := index . 1 | toString -}}
{{- if and (not (kindIs "invalid" (index . 1))) (ne $value (index . 2)) -}}
{{- $flags = append $flags (printf "--%s=%s" (index . 0) $value) -}}
{{- end -}}
{{- end -}}
{{- if $values.gpuOperator.patchClusterPolicy -}}
{{- $flags = append $flags "--patch-cluster-policy" -}}
{{- end -}}
{{- if $values.gpuOperator.patchDevicePlugin -}}
{{- $flags = append $flags "--patch-device-plugin" -}}
{{- end -}}
{{- with $values.metrics.tls -}}
{{- if .secretName -}}
{{- $flags = concat $flags (list "--metrics-certificate=/etc/slicewright/metrics-tls/tls.crt" "--metrics-key=/etc/slicewright/metrics-tls/tls.key") -}}
{{- if ne (default "VersionTLS12" .minVersion) "VersionTLS12" -}}
{{- $flags = append $flags (printf "--metrics-tls-min-version=%s" .minVersion) -}}
{{- end -}}
{{- with .cipherSuites -}}
{{- $flags = append $flags (printf "--metrics-cipher-suites=%s" (join "," .)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with concat $flags (default list $values.extraArgs) -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}
