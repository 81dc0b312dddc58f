// The Prometheus Operator: its CRDs, without which the bundle's ServiceMonitor and PrometheusRule cannot be installed.
module slicewright.io/tools/monitoring

go 1.26.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
