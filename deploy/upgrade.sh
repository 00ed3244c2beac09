#!/bin/sh
# Usage: sh deploy/upgrade.sh, after `git pull` or with a new GATEWAY_IMAGE in .env. Upgrades a running deployment of
# docker-compose.yml without interrupting callers: builds or pulls the image, migrates the database, and replaces workers
# and APIs one after the other. Stops at the first process that does not become healthy; the remaining ones keep running
# the old version.
set -eu
cd "$(dirname "$0")/.."
fail() { echo "upgrade: $1" >&2; exit 1; }
[ -f .env ] || fail 'there is no .env; run sh deploy/secrets.sh first'
docker compose version >/dev/null 2>&1 || fail 'docker compose is not installed'
if grep -q '^GATEWAY_IMAGE=.' .env; then
  docker compose pull --quiet api-1
else
  docker compose build api-1
fi
docker compose run --rm --no-deps migrations
for name in worker-1 worker-2 api-1 api-2; do
  echo "replacing $name"
  docker compose up --detach --no-deps --no-build --wait --wait-timeout 180 "$name"
done
# Replaces Postgres, Temporal and the load balancer, if this release changes their versions.
docker compose up --detach --no-build --wait --wait-timeout 300
echo 'upgraded'
