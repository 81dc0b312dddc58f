#!/bin/sh
# The plan of one cluster, as a comment and as a page:
#   plan.sh CLUSTER BEFORE COMMENT [PAGE]
# BEFORE is a checkout of the target branch. A cluster that it lacks is new; a cluster that only it has is deleted by the
# change, and is planned without policies, on the fleet of the target branch.
# Exits with 5 if people would lose their slice (PEOPLE_MAY_LOSE=1 accepts that), with 4 if an expectation does not
# hold, with 6 if another plan was reviewed, with 7 if the planner gave up, with 64 or more (or 1) if something cannot be
# read, otherwise with 0.
set -u
cluster=$1 before=$2/clusters/$1 comment=$3 page=${4:-} fleet=fleets/$1.yaml
[ -e "$fleet" ] || fleet=$2/$fleet
mkdir -p "$before" "clusters/$cluster"
plan() {
    "${SLICEWRIGHT:-slicewright}" plan --fleet "$fleet" --base "$before" -f "clusters/$cluster" \
        --now "${NOW:-clock}" --max-age "${MAX_AGE:-24h}" -o "$1"
}
plan markdown > "$comment"
status=$?
[ -z "$page" ] || plan html > "$page" 2> /dev/null
case $status in
    0 | 2 | 3) exit 0 ;; # nothing changes; something changes; something is blocked or violated: read the comment
    5) [ -n "${PEOPLE_MAY_LOSE:-}" ] && exit 0 ;;
esac
exit $status
