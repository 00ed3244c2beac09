#!/bin/sh
# Prints the path of promtool. If it is not on the PATH, unpacks the Debian package prometheus into .cache.
set -eu
cd "$(dirname "$0")/.."
if command -v promtool; then exit; fi
cached=.cache/promtool
if [ ! -x $cached/usr/bin/promtool ]; then
  mkdir -p .cache
  new=$(mktemp -d .cache/promtool-XXXXXX)
  trap 'rm -rf "$new"' EXIT
  if ! (cd "$new" && apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb .) >&2; then
    echo 'promtool is not on the PATH, and the Debian package prometheus is not available' >&2
    exit 1
  fi
  rm -rf $cached
  mv "$new" $cached
fi
echo "$PWD/$cached/usr/bin/promtool"
