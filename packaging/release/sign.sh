#!/usr/bin/env bash
# Signs what `cargo xtask publish` put into the registry, by digest, and attaches where it comes from and, to the images
# with programs (operator, must-gather, agent), what they are made of. The workflow signs with its own identity; the
# rehearsal with a key:
#
#   sign.sh DIST [OPTION OF COSIGN...]
set -euo pipefail
dist=$1
shift
: "${COSIGN:=cosign}"
while read -r reference; do
    "$COSIGN" sign --yes "$@" "$reference"
    "$COSIGN" attest --yes "$@" --type slsaprovenance1 --predicate "$dist/predicate.json" "$reference"
    case $reference in
        */slicewright@*) made=operator ;;
        */must-gather@*) made=must-gather ;;
        */agent@*) made=agent ;;
        *) continue ;;
    esac
    for inventory in "$dist/files/$made"-*.cdx.json; do
        "$COSIGN" attest --yes "$@" --type cyclonedx --predicate "$inventory" "$reference"
    done
done < "$dist/digests.txt"
