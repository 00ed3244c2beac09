#!/bin/sh
# Starts the server that stands in for an official image of docker-compose.yml (dev/compose/stand-ins.ts) under its command.
set -eu
case "${STAND_IN:-}" in
postgres)
  data=/var/lib/postgresql/18/docker
  as_postgres() { setpriv --reuid postgres --regid postgres --clear-groups env LD_LIBRARY_PATH=/opt/postgres/lib "$@"; }
  if [ ! -s $data/PG_VERSION ]; then
    mkdir -p $data
    chown -R postgres:postgres /var/lib/postgresql
    printf %s "$POSTGRES_PASSWORD" >/var/lib/postgresql/password
    chmod 644 /var/lib/postgresql/password
    as_postgres /opt/postgres/bin/initdb -D $data -U "$POSTGRES_USER" --pwfile=/var/lib/postgresql/password -A scram-sha-256 >/dev/null
    rm /var/lib/postgresql/password
    echo 'host all all all scram-sha-256' >>$data/pg_hba.conf
    echo "CREATE DATABASE $POSTGRES_DB" | as_postgres /opt/postgres/bin/postgres --single -D $data postgres >/dev/null
  fi
  shift # the word `postgres` of the command
  exec setpriv --reuid postgres --regid postgres --clear-groups env LD_LIBRARY_PATH=/opt/postgres/lib \
    /opt/postgres/bin/postgres -D $data -c 'listen_addresses=*' -k /var/run/postgresql "$@"
  ;;
temporal) exec temporal server start-dev --ip 0.0.0.0 --port 7233 --headless --log-level warn ;;
# Serves an empty directory on the port of the Temporal UI.
ui) exec rclone serve http --addr :8080 --config /dev/null /opt/empty ;;
storage) exec rclone serve s3 --addr :7070 --config /dev/null --auth-key "$ROOT_ACCESS_KEY,$ROOT_SECRET_KEY" /objects ;;
caddy) exec caddy run --config /etc/caddy/Caddyfile --adapter caddyfile ;;
*) exec "$@" ;;
esac
