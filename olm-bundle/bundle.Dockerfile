# Generated from the chart, the CRDs and packaging/olm by `cargo xtask codegen`; do not edit.
FROM scratch

LABEL com.redhat.delivery.operator.bundle=true
LABEL com.redhat.openshift.versions=v4.20
LABEL operatorframework.io/cluster-monitoring=true
LABEL operatorframework.io/suggested-namespace=slicewright-system
LABEL operators.operatorframework.io.bundle.channel.default.v1=fast-v0
LABEL operators.operatorframework.io.bundle.channels.v1=candidate-v0,fast-v0
LABEL operators.operatorframework.io.bundle.manifests.v1=manifests/
LABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1
LABEL operators.operatorframework.io.bundle.metadata.v1=metadata/
LABEL operators.operatorframework.io.bundle.package.v1=slicewright
LABEL operators.operatorframework.io.test.config.v1=tests/scorecard/
LABEL operators.operatorframework.io.test.mediatype.v1=scorecard+v1

COPY manifests /manifests/
COPY metadata /metadata/
COPY tests/scorecard /tests/scorecard/
