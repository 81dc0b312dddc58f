#!/bin/sh
# The plans of all clusters of this checkout, compared with the target branch:
#   plans.sh BEFORE OUT
# Writes CLUSTER.md and CLUSTER.html into OUT. Exits with the status of the last cluster that failed.
set -u
before=$1 out=$2 failed=0
mkdir -p "$out"
# The script of the target branch: a change must not rewrite the script that checks it. (The first change
# adds it.)
script=$before/plan.sh
[ -x "$script" ] || script=./plan.sh
for folder in clusters/*/; do
    cluster=$(basename "$folder")
    "$script" "$cluster" "$before" "$out/$cluster.md" "$out/$cluster.html" || failed=$?
    # Without a plan there is nothing to show.
    [ -s "$out/$cluster.md" ] || rm -f "$out/$cluster.md" "$out/$cluster.html"
done
exit "$failed"
