{{- define "gateway.name" -}}
{{ printf "%s-%s" .root.Release.Name .part | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "gateway.selector" -}}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/name: {{ .part }}
{{- end }}

{{- define "gateway.labels" -}}
{{ include "gateway.selector" . }}
app.kubernetes.io/part-of: studio-gateway
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "gateway.image" -}}
{{ .Values.image.repository }}{{ with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}


{{- define "gateway.secrets" -}}
{{- range .Values.secretNames }}
- secretRef: { name: {{ . }} }
{{- end }}
{{- end }}

{{/* Node selection of all pods. */}}
{{- define "gateway.placement" -}}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- end }}

{{/* Additional environment variables of all containers. */}}
{{- define "gateway.env" -}}
{{- with .Values.extraEnv }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Hash of the Secrets in the cluster, also of mounted ones, so that `helm upgrade` replaces the pods when one has changed. */}}
{{- define "gateway.secretsHash" -}}
{{- $names := .Values.secretNames }}
{{- range .Values.extraVolumes }}
{{- with dig "secret" "secretName" "" . }}{{ $names = append $names . }}{{ end }}
{{- range dig "projected" "sources" list . }}
{{- with dig "secret" "name" "" . }}{{ $names = append $names . }}{{ end }}
{{- end }}
{{- end }}
{{- $found := dict }}
{{- range $names }}
{{- $_ := set $found . (dig "data" dict (lookup "v1" "Secret" $.Release.Namespace .)) }}
{{- end }}
{{- toJson $found | sha256sum }}
{{- end }}

{{/* Pod template of a long-running process: `api` or `worker`. */}}
{{- define "gateway.pod" -}}
metadata:
  labels:
    {{- include "gateway.labels" . | nindent 4 }}
  annotations:
    # These hashes replace the pods when the configuration changes, because processes read it only at their start.
    checksum/config: {{ include (print .root.Template.BasePath "/config.yaml") .root | sha256sum }}
    checksum/secrets: {{ include "gateway.secretsHash" .root }}
    {{- with .root.Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "gateway.name" (dict "root" .root "part" "gateway") }}
  automountServiceAccountToken: false
  # Kubernetes would otherwise set variables such as METRICS_PORT for each Service of the namespace.
  enableServiceLinks: false
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets: {{ toJson . }}
  {{- end }}
  {{- include "gateway.placement" .root | nindent 2 }}
  # A process waits up to 45 s for open responses and running activities before it exits.
  terminationGracePeriodSeconds: 60
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "gateway.selector" . | nindent 10 }}
  securityContext: {{ toJson .root.Values.podSecurityContext }}
  containers:
    - name: {{ .part }}
      image: {{ include "gateway.image" .root }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      command: ['node', '{{ .part }}/main.ts']
      ports:
        {{- if eq .part "api" }}
        - { name: http, containerPort: 4000 }
        {{- end }}
        - { name: metrics, containerPort: 9464 }
      envFrom:
        - configMapRef: { name: {{ include "gateway.name" (dict "root" .root "part" "gateway") }} }
        {{- include "gateway.secrets" .root | nindent 8 }}
      {{- include "gateway.env" .root | nindent 6 }}
      # Succeeds once Postgres and Temporal are reachable and, in a worker, the first poll has been made.
      startupProbe:
        httpGet: { path: /readyz, port: metrics }
        periodSeconds: 2
        failureThreshold: 90
      readinessProbe:
        httpGet: { path: /readyz, port: metrics }
        periodSeconds: 5
        timeoutSeconds: 4
        failureThreshold: 2
      # Succeeds as long as the process itself works, so that an unavailable database causes no restart.
      livenessProbe:
        httpGet: { path: /healthz, port: metrics }
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      securityContext: {{ toJson .root.Values.securityContext }}
      resources: {{ toJson .values.resources }}
      volumeMounts:
        - { name: data, mountPath: /data }
        - { name: tmp, mountPath: /tmp }
        {{- with .root.Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    # Holds files on disk before they are stored in the object store.
    - name: data
      emptyDir: { sizeLimit: 8Gi }
    - name: tmp
      emptyDir: { sizeLimit: 1Gi }
    {{- with .root.Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{- define "gateway.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "gateway.name" . }}
  labels:
    {{- include "gateway.labels" . | nindent 4 }}
spec:
  maxUnavailable: {{ .values.maxUnavailable }}
  selector:
    matchLabels:
      {{- include "gateway.selector" . | nindent 6 }}
{{- end }}
