#!/bin/sh
# Runs the command line in a container of the gateway, with the container's address and admin key. Example: studio admin jobs
set -eu
STUDIO_API_URL=${STUDIO_API_URL:-http://127.0.0.1:${API_PORT:-4000}}
STUDIO_ADMIN_KEY=${STUDIO_ADMIN_KEY:-${ADMIN_API_KEY:-}}
export STUDIO_API_URL STUDIO_ADMIN_KEY
exec node /app/clients/cli/main.ts "$@"
