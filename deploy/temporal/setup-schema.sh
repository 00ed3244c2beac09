#!/bin/sh
# Creates or updates the schemas of the two databases of the Temporal server. Safe to run again.
set -eu
for pair in temporal:temporal temporal_visibility:visibility; do
  database=${pair%%:*}
  sql() {
    temporal-sql-tool --plugin postgres12 --ep "$POSTGRES_HOST" -p "${POSTGRES_PORT:-5432}" -u "$POSTGRES_USER" \
      --db "$database" "$@"
  }
  sql create
  # Fails if the database already has a schema; the update below then continues from that version.
  sql setup-schema -v 0.0 || true
  # The tool contains the schemas of its own version.
  sql update-schema --schema-name "postgresql/v12/${pair##*:}"
done
