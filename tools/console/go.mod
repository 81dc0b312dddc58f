// OpenShift's console: the CRDs of its samples, quick starts and downloads, which the bundle brings objects of.
module slicewright.io/tools/console

go 1.26.0

require github.com/openshift/api v0.0.0-20260204104751-e09e5a4ebcd0
