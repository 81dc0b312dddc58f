#!/bin/sh
# The plans of all clusters of this checkout against the branch before: plans.sh BEFORE OUT
# OUT gets CLUSTER.md and CLUSTER.html. Exits with what the last cluster that failed says.
set -u
before=$1 out=$2 failed=0
mkdir -p "$out"
# The script of the branch before: a change must not rewrite what judges it. (The first one brings it.)
script=$before/plan.sh
[ -x "$script" ] || script=./plan.sh
for folder in clusters/*/; do
    cluster=$(basename "$folder")
    "$script" "$cluster" "$before" "$out/$cluster.md" "$out/$cluster.html" || failed=$?
    # Without a plan there is nothing to show.
    [ -s "$out/$cluster.md" ] || rm -f "$out/$cluster.md" "$out/$cluster.html"
done
exit "$failed"
