#!/bin/bash
# Usage: bash healthcheck.sh PORT PATH [HOST]. Exits with 0 if http://HOST:PORT/PATH responds with status 200.
set -eu
exec 3<>"/dev/tcp/${3:-127.0.0.1}/$1"
printf 'GET %s HTTP/1.0\r\n\r\n' "$2" >&3
read -r _ status _ <&3
[ "$status" = 200 ]
