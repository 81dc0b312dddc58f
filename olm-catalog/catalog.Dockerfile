# An image of the catalog, for those who serve one of their own. BASE is an image that has /bin/opm: the one of your
# OpenShift release (ose-operator-registry), or upstream's.
ARG BASE
FROM ${BASE}
COPY catalog /configs
# The cache is made while the image is, so that the pod starts at once and needs no place to write to.
RUN ["/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-only"]
ENTRYPOINT ["/bin/opm"]
CMD ["serve", "/configs", "--cache-dir=/tmp/cache"]
LABEL operators.operatorframework.io.index.configs.v1=/configs
