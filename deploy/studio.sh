#!/bin/sh
# Runs the command line in the gateway's container, with its address and admin key, for example: studio admin jobs
set -eu
STUDIO_API_URL=${STUDIO_API_URL:-http://127.0.0.1:${API_PORT:-4000}}
STUDIO_ADMIN_KEY=${STUDIO_ADMIN_KEY:-${ADMIN_API_KEY:-}}
export STUDIO_API_URL STUDIO_ADMIN_KEY
exec node /app/cli/main.ts "$@"
