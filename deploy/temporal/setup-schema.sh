#!/bin/sh
# Creates or updates the two databases of the Temporal server. Safe to run again.
set -eu
for pair in temporal:temporal temporal_visibility:visibility; do
  database=${pair%%:*}
  sql() {
    temporal-sql-tool --plugin postgres12 --ep "$POSTGRES_HOST" -p "${POSTGRES_PORT:-5432}" -u "$POSTGRES_USER" \
      --db "$database" "$@"
  }
  sql create
  # A database that has a schema refuses this one; the update below then starts from what is there.
  sql setup-schema -v 0.0 || true
  # The tool has the schemas of its version.
  sql update-schema --schema-name "postgresql/v12/${pair##*:}"
done
