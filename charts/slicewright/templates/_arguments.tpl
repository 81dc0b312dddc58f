{{/* The operator's flags. What is not said here has the default that `slicewright-operator --help` prints. */}}
{{- define "slicewright.arguments" -}}
- --gpu-operator-namespace={{ .Values.gpuOperator.namespace }}
{{- with .Values.gpuOperator.administratorsMap }}
- --administrators-map={{ . }}
{{- end }}
{{- if .Values.gpuOperator.patchClusterPolicy }}
- --patch-cluster-policy
{{- end }}
- --map-settle={{ .Values.rollout.mapSettle }}
- --cordon-settle={{ .Values.rollout.cordonSettle }}
- --batch-delay={{ .Values.rollout.batchDelay }}
- --stable-for={{ .Values.rollout.stableFor }}
- --blocked-after={{ .Values.rollout.blockedAfter }}
- --parallel-nodes={{ .Values.rollout.parallelNodes }}
{{- if .Values.metrics.tls.secretName }}
- --metrics-certificate=/etc/slicewright/metrics-tls/tls.crt
- --metrics-key=/etc/slicewright/metrics-tls/tls.key
- --metrics-tls-min-version={{ .Values.metrics.tls.minVersion }}
{{- with .Values.metrics.tls.cipherSuites }}
- --metrics-cipher-suites={{ join "," . }}
{{- end }}
{{- end }}
- --log-format={{ .Values.logging.format }}
- --log={{ .Values.logging.filter }}
{{- end -}}
