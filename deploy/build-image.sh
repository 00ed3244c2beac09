#!/bin/sh
# Usage: sh deploy/build-image.sh [name]. Builds the images of the gateway and the sandbox; the name defaults to
# studio-gateway:local. Adds labels of the Open Container Initiative, and writes a list of all packages (CycloneDX) to
# .cache. CONTAINER_ENGINE=podman builds with Podman instead of Docker. BUILD_FLAGS contains more flags for the build.
set -eu
cd "$(dirname "$0")/.."
name=${1:-studio-gateway:local}
engine=${CONTAINER_ENGINE:-docker}
version=$(node -p "require('./package.json').version")
revision=$(git rev-parse HEAD)$(git diff --quiet HEAD || echo -dirty)

# Lists the production packages from the lockfile, with versions, licenses and checksums.
mkdir -p .cache
npm sbom --sbom-format cyclonedx --sbom-type application --package-lock-only --omit dev --workspaces=false >.cache/sbom.cdx.json

label() { printf -- '--label org.opencontainers.image.%s=%s ' "$1" "$2"; }
labels="$(label version "$version")$(label revision "$revision")$(label licenses MIT)\
$(label created "$(git log -1 --format=%cI)")"
build() {
  # The flags are unquoted on purpose, so that the shell splits them; no flag contains a space.
  # shellcheck disable=SC2086
  $engine build ${BUILD_FLAGS:-} $labels --label org.opencontainers.image.title="$1" \
    --file deploy/Dockerfile --target "$2" --tag "$3" .
}
build studio-gateway gateway "$name"
[ "${SANDBOX:-true}" = false ] || build studio-gateway-sandbox sandbox "${name%:*}-sandbox:${name##*:}"
echo "built $name ($version, $revision); its packages are in .cache/sbom.cdx.json"
