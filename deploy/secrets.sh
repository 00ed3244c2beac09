#!/bin/sh
# Makes the secrets that docker-compose.yml asks for, in .env (or the file that is named). What is there stays as it is:
# with another KEY_PEPPER every API key would be lost.
set -eu
file=${1:-.env}
umask 077
touch "$file"
for name in POSTGRES_PASSWORD S3_ACCESS_KEY_ID S3_SECRET_ACCESS_KEY STORAGE_SECRET KEY_PEPPER \
  WEBHOOK_SECRET WEBHOOK_SIGNING_SECRET ADMIN_API_KEY GRAFANA_PASSWORD; do
  if ! grep -q "^$name=" "$file"; then
    # A last line without an end would swallow the next one.
    [ -z "$(tail -c 1 "$file")" ] || echo >>"$file"
    echo "$name=$(openssl rand -hex 32)" >>"$file"
    echo "made $name"
  fi
done
