#!/bin/sh
# Prints the path of promtool: from the PATH, or else from Debian's package prometheus, unpacked into .cache once.
set -eu
cd "$(dirname "$0")/.."
if command -v promtool; then exit; fi
kept=.cache/promtool
if [ ! -x $kept/usr/bin/promtool ]; then
  mkdir -p .cache
  new=$(mktemp -d .cache/promtool-XXXXXX)
  trap 'rm -rf "$new"' EXIT
  if ! (cd "$new" && apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb .) >&2; then
    echo 'promtool is not on the PATH, and the Debian package prometheus is not available' >&2
    exit 1
  fi
  rm -rf $kept
  mv "$new" $kept
fi
echo "$PWD/$kept/usr/bin/promtool"
