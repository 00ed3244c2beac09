#!/bin/sh
# Makes the first organization, with credits and a key, when the file that is named holds no key yet; says where the
# gateway is and what the key is. In the gateway's image, with STUDIO_API_URL, STUDIO_ADMIN_KEY and PUBLIC_BASE_URL.
set -eu
file=$1
admin() { node cli/main.ts --json admin "$@" --actor first-key --reason 'the first start'; }
field() { node -p "JSON.parse(fs.readFileSync(0, 'utf8')).data.$1"; }
if [ ! -s "$file" ]; then
  made=$(admin org create First)
  organization=$(echo "$made" | field organizationId)
  admin grant "$organization" "${FIRST_CREDITS:-1000}" --id first-credits >/dev/null
  umask 077
  admin key create "$(echo "$made" | field ownerId)" first | field key >"$file.new"
  # A key that is only half written is none.
  mv "$file.new" "$file"
fi
cat <<END

The gateway is ready.
  API      $PUBLIC_BASE_URL
  Console  $PUBLIC_BASE_URL/console
  API key  $(cat "$file")
END
