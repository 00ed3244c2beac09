#!/bin/sh
# Usage: sh prune.sh node_modules. Removes the files that a running process never opens.
set -eu
cd "$1"
# Type declarations, TypeScript sources, source maps and documentation of the packages.
find . -type f \( -name '*.map' -o -name '*.ts' -o -name '*.mts' -o -name '*.cts' -o -name '*.flow' \
  -o -name '*.md' -o -name '*.markdown' -o -name '*.tsbuildinfo' \) -delete
# The compiler of the workflow bundles, which are already built; the Rust sources of Temporal's core, and its builds for
# other platforms.
rm -rf @swc @types swagger-ui-dist/swagger-ui-es-bundle*
find @temporalio/core-bridge -mindepth 1 -maxdepth 1 -type d ! -name releases ! -name lib -exec rm -rf {} +
find @temporalio/core-bridge/releases -mindepth 1 -maxdepth 1 ! -name "$(uname -m)-unknown-linux-gnu" -exec rm -rf {} +
# Builds that Node does not use, because it loads the CommonJS build.
rm -rf rxjs/dist/bundles rxjs/dist/esm rxjs/dist/esm5
find . -type d -empty -delete
