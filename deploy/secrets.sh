#!/bin/sh
# Generates the secrets that docker-compose.yml requires, in .env or in the file given as argument. Existing lines do not
# change, because a new KEY_PEPPER would invalidate every API key. With --sandbox, providers without a line are
# served by the bundled sandbox (deploy/sandbox.env).
set -eu
sandbox=
[ "${1:-}" != --sandbox ] || { sandbox=1; shift; }
file=${1:-.env}
umask 077
touch "$file"
# Adds a line NAME=value unless there is one.
add() {
  ! grep -q "^$1=" "$file" || return 0
  # If the file does not end with a newline, the new line would be joined to the last one.
  [ -z "$(tail -c 1 "$file")" ] || echo >>"$file"
  echo "$1=$2" >>"$file"
  echo "made $1"
}
for name in POSTGRES_PASSWORD S3_ACCESS_KEY_ID S3_SECRET_ACCESS_KEY STORAGE_SECRET KEY_PEPPER \
  WEBHOOK_SECRET WEBHOOK_SIGNING_SECRET ADMIN_API_KEY GRAFANA_PASSWORD; do
  add "$name" "$(openssl rand -hex 32)"
done
# Encrypts prompts in Temporal. TEMPORAL_CODEC_WORD is part of the URL at which the Temporal UI decrypts them
# (docs/payload-encryption.md).
add PAYLOAD_KEYS "$(date +%Y-%m-%d):$(openssl rand -base64 32)"
admin=$(sed -n 's/^ADMIN_API_KEY=//p' "$file")
add TEMPORAL_CODEC_WORD "$(printf temporal-codec-read | openssl dgst -sha256 -hmac "$admin" -binary | base64 | tr '+/' '-_' | tr -d '=')"
[ -n "$sandbox" ] || exit 0
add COMPOSE_PROFILES sandbox
while IFS='=' read -r name value; do
  case $name in [A-Z]*) add "$name" "$value" ;; esac
done <"$(dirname "$0")/sandbox.env"
