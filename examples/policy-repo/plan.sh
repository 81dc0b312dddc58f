#!/bin/sh
# The plan of one cluster as a comment: plan.sh CLUSTER BEFORE COMMENT
# BEFORE is a checkout of the branch that the change goes into; a cluster that it lacks is new.
# Exits with 4 when an expectation does not hold, with 64 or more (or 1) when there is no plan, else with 0.
set -u
cluster=$1 before=$2/clusters/$1 comment=$3
mkdir -p "$before"
"${SLICEWRIGHT:-slicewright}" plan --fleet "fleets/$cluster.yaml" --base "$before" -f "clusters/$cluster" \
    -o markdown > "$comment"
status=$?
case $status in
    0 | 2 | 3) exit 0 ;; # nothing changes; something does; something is blocked or violated: read the comment
    *) exit $status ;;
esac
