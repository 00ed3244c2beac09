#!/bin/sh
# Makes the secrets that docker-compose.yml asks for, in .env (or the file that is named). What is there stays as it is:
# with another KEY_PEPPER every API key would be lost. With --sandbox, the providers are the bundled sandbox's
# (deploy/sandbox.env), where nothing else is said of them.
set -eu
sandbox=
[ "${1:-}" != --sandbox ] || { sandbox=1; shift; }
file=${1:-.env}
umask 077
touch "$file"
# Adds a line NAME=value unless there is one.
add() {
  ! grep -q "^$1=" "$file" || return 0
  # A last line without an end would swallow the next one.
  [ -z "$(tail -c 1 "$file")" ] || echo >>"$file"
  echo "$1=$2" >>"$file"
  echo "made $1"
}
for name in POSTGRES_PASSWORD S3_ACCESS_KEY_ID S3_SECRET_ACCESS_KEY STORAGE_SECRET KEY_PEPPER \
  WEBHOOK_SECRET WEBHOOK_SIGNING_SECRET ADMIN_API_KEY GRAFANA_PASSWORD; do
  add "$name" "$(openssl rand -hex 32)"
done
[ -n "$sandbox" ] || exit 0
add COMPOSE_PROFILES sandbox
while IFS='=' read -r name value; do
  case $name in [A-Z]*) add "$name" "$value" ;; esac
done <"$(dirname "$0")/sandbox.env"
