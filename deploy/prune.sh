#!/bin/sh
# Removes files from the image's node_modules that a running process never opens.
set -eu
cd "$1"
# Types, sources and maps of compiled packages, and texts.
find . -type f \( -name '*.map' -o -name '*.ts' -o -name '*.mts' -o -name '*.cts' -o -name '*.flow' \
  -o -name '*.md' -o -name '*.markdown' -o -name '*.tsbuildinfo' \) -delete
# The compiler of the workflow bundles, which are already built; Temporal core's Rust sources and its builds for other platforms.
rm -rf @swc @types swagger-ui-dist/swagger-ui-es-bundle*
find @temporalio/core-bridge -mindepth 1 -maxdepth 1 -type d ! -name releases ! -name lib -exec rm -rf {} +
find @temporalio/core-bridge/releases -mindepth 1 -maxdepth 1 ! -name "$(uname -m)-unknown-linux-gnu" -exec rm -rf {} +
# Node loads the CommonJS builds of these.
rm -rf rxjs/dist/bundles rxjs/dist/esm rxjs/dist/esm5
find . -type d -empty -delete
