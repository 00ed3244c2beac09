#!/bin/sh
# Usage: sh deploy/secrets.sh [--sandbox] [FILE]. Adds the secrets that docker-compose.yml requires to FILE, by default .env.
# Does not change existing lines, because a new KEY_PEPPER would invalidate every API key. With --sandbox, also adds the
# settings of deploy/sandbox.env, so that the bundled sandbox replaces each provider that FILE does not configure.
set -eu
sandbox=
[ "${1:-}" != --sandbox ] || { sandbox=1; shift; }
file=${1:-.env}
umask 077
touch "$file"
# Adds the line NAME=value, unless the file already sets NAME.
add() {
  ! grep -q "^$1=" "$file" || return 0
  # Ends the last line if it has no newline; otherwise the new line would be appended to it.
  [ -z "$(tail -c 1 "$file")" ] || echo >>"$file"
  echo "$1=$2" >>"$file"
  echo "added $1"
}
for name in POSTGRES_PASSWORD S3_ACCESS_KEY_ID S3_SECRET_ACCESS_KEY STORAGE_SECRET KEY_PEPPER \
  WEBHOOK_SECRET WEBHOOK_SIGNING_SECRET ADMIN_API_KEY GRAFANA_PASSWORD; do
  add "$name" "$(openssl rand -hex 32)"
done
# PAYLOAD_KEYS encrypts prompts in Temporal. TEMPORAL_CODEC_WORD is the secret part of the URL at which the Temporal UI
# has them decrypted (docs/payload-encryption.md).
add PAYLOAD_KEYS "$(date +%Y-%m-%d):$(openssl rand -base64 32)"
admin=$(sed -n 's/^ADMIN_API_KEY=//p' "$file")
add TEMPORAL_CODEC_WORD "$(printf temporal-codec-read | openssl dgst -sha256 -hmac "$admin" -binary | base64 | tr '+/' '-_' | tr -d '=')"
[ -n "$sandbox" ] || exit 0
add COMPOSE_PROFILES sandbox
while IFS='=' read -r name value; do
  case $name in [A-Z]*) add "$name" "$value" ;; esac
done <"$(dirname "$0")/sandbox.env"
