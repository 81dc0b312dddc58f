#!/bin/sh
# Posts comments, each of which replaces the one with the same mark:
#   comment.sh github|gitlab URL FILE...
# URL is the list of comments of the pull request (GitHub) or of notes of the merge request (GitLab); TOKEN may write
# there. The content of the files comes from the change and is not trusted: it is only text in a comment.
set -eu
forge=$1 url=$2
shift 2
case $forge in
    github) header="Authorization: Bearer $TOKEN" change=PATCH ;;
    gitlab) header="PRIVATE-TOKEN: $TOKEN" change=PUT ;;
    *) echo "comment.sh: the first word is github or gitlab" >&2; exit 64 ;;
esac
# The address of a single comment: on GitHub it is not below the pull request.
one=$url
[ "$forge" = gitlab ] || one=${url%/issues/*}/issues/comments
call() { curl --silent --show-error --fail --header "$header" --header "Content-Type: application/json" "$@"; }
for file in "$@"; do
    mark=$(tail -n 1 "$file")
    printf '%s\n' "$mark" | grep -qE '^<!-- slicewright-plan:[A-Za-z0-9._/-]+ -->$' || {
        echo "comment.sh: $file does not end with the mark of a plan" >&2
        exit 65
    }
    page=1 id=
    while [ -z "$id" ]; do
        found=$(call "$url?per_page=100&page=$page")
        id=$(printf '%s' "$found" | jq -r --arg mark "$mark" '[.[] | select(.body | endswith($mark)) | .id][0] // empty')
        [ "$(printf '%s' "$found" | jq length)" -eq 100 ] || break
        page=$((page + 1))
    done
    # Forges refuse more than 65,536 characters; the mark has to stay.
    body=$(jq -Rs '{body: (rtrimstr("\n"))}' "$file")
    if [ -n "$id" ]; then
        call --request "$change" --data "$body" "$one/$id" > /dev/null
    else
        call --request POST --data "$body" "$url" > /dev/null
    fi
done
