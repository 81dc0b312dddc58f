#!/bin/sh
# The plans of all clusters of this checkout and of the target branch, compared with the target branch:
#   plans.sh BEFORE OUT
# Writes CLUSTER.md and CLUSTER.html into OUT. Exits with the status of the last cluster that failed.
set -u
before=$1 out=$2 failed=0
mkdir -p "$out"
# The script of the target branch: a change must not rewrite the script that checks it. (The first change
# adds it.)
script=$before/plan.sh
[ -x "$script" ] || script=./plan.sh
plan() {
    "$script" "$1" "$before" "$out/$1.md" "$out/$1.html" || failed=$?
    # Without a plan there is nothing to show.
    [ -s "$out/$1.md" ] || rm -f "$out/$1.md" "$out/$1.html"
}
for folder in clusters/*/; do
    [ ! -d "$folder" ] || plan "$(basename "$folder")"
done
# A cluster whose folder the change deletes loses all its policies: its users have to be told as well.
for folder in "$before"/clusters/*/; do
    cluster=$(basename "$folder")
    [ ! -d "$folder" ] || [ -d "clusters/$cluster" ] || plan "$cluster"
done
exit "$failed"
