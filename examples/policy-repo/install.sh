#!/bin/sh
# Installs `slicewright` for a job:
#   install.sh FOLDER
# The version, where it is published, and what its archives must be: the only place of this repository that says so.
# A release has a copy of this file with its own version and digests. No file has a digest of zeros.
set -eu
VERSION=0.1.0
REPOSITORY=https://github.com/slicewright/slicewright
SHA256_AMD64=0000000000000000000000000000000000000000000000000000000000000000
SHA256_ARM64=0000000000000000000000000000000000000000000000000000000000000000

folder=${1:?the folder for the program is missing: install.sh FOLDER}
case $(uname -m) in
    x86_64 | amd64) system=linux-amd64 digest=$SHA256_AMD64 ;;
    aarch64 | arm64) system=linux-arm64 digest=$SHA256_ARM64 ;;
    *) echo "install.sh: no archive is published for $(uname -m)" >&2; exit 69 ;;
esac
archive=slicewright-v$VERSION-$system.tar.gz
# A mirror has the same files in the same folders.
url=${SLICEWRIGHT_RELEASES:-$REPOSITORY/releases/download}/v$VERSION/$archive
mkdir -p "$folder"
curl --silent --show-error --fail --location --retry 3 --output "$folder/$archive" "$url"
if ! printf '%s  %s\n' "$digest" "$folder/$archive" | sha256sum -c - > /dev/null 2>&1; then
    rm -f "$folder/$archive"
    echo "install.sh: $url is not the archive whose digest install.sh names ($digest)" >&2
    exit 65
fi
tar -xzf "$folder/$archive" -C "$folder" slicewright
rm -f "$folder/$archive"
