#!/bin/bash
# An OCI runtime for machines whose capability bounding set lacks CAP_SYS_RESOURCE: runc cannot grant what nobody
# here has, so it is asked for the rest. Limits of resources need the same capability.
prev=
bundle=
process=
for arg in "$@"; do
  case $prev in
    --bundle | -b) bundle=$arg ;;
    --process | -p) process=$arg ;;
  esac
  prev=$arg
done
without() { # FILE PATH-OF-THE-PROCESS
  [ -f "$1" ] || return 0
  jq "$2 |= (if .capabilities then .capabilities |= map_values(if type == \"array\" then map(select(. != \"CAP_SYS_RESOURCE\")) else . end) else . end | del(.rlimits))" "$1" >"$1.less" &&
    cat "$1.less" >"$1" && rm -f "$1.less"
}
[ -z "$bundle" ] || without "$bundle/config.json" .process
[ -z "$process" ] || without "$process" .
exec runc "$@"
