#!/bin/sh
# Usage: sh first-key.sh FILE, as a service of docker-compose.yml with ADMIN_API_KEY and PUBLIC_BASE_URL. Creates the first
# organization with credits and an API key, unless FILE records that it exists. Prints the addresses of the gateway. The
# key is printed only once and stored nowhere.
set -eu
file=$1
export STUDIO_API_URL="${STUDIO_API_URL:-http://api-1:4000}"
admin() {
  STUDIO_ADMIN_KEY=$ADMIN_API_KEY node clients/cli/main.ts --json admin "$@" --actor first-key --reason 'the first start'
}
field() { node -p "JSON.parse(fs.readFileSync(0, 'utf8')).data.$1"; }
key="printed at the first start; to create another: docker compose exec api-1 studio admin key create"
# If a step fails, the next start resumes after the last successful step.
if [ ! -s "$file" ]; then
  admin org create First >"$file.new"
  mv "$file.new" "$file"
fi
if [ ! -e "$file.printed" ]; then
  admin grant "$(field organizationId <"$file")" "${FIRST_CREDITS:-1000}" --id first-credits >/dev/null
  key=$(admin key create "$(field ownerId <"$file")" first | field key)
  touch "$file.printed"
fi
cat <<END

The gateway starts to serve at these addresses.
  API      $PUBLIC_BASE_URL
  Console  $PUBLIC_BASE_URL/console
  API key  $key
END
