{{- define "reverie.image" -}}
{{ .Values.image.repository }}{{ with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag }}{{ end }}
{{- end }}

{{- /* What a release makes begins with its name, so that two releases fit into one namespace. */}}
{{- define "reverie.serve" -}}
{{ .Release.Name }}-serve
{{- end }}

{{- define "reverie.run" -}}
{{ .Release.Name }}-run
{{- end }}

{{- define "reverie.pod" -}}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "reverie.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "reverie.models" -}}
{{- if .Values.models }}
- name: models
  image: {{ include "reverie.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: {{ concat (list "reverie" "models" "pull") .Values.models | toJson }}
  env:
    - {name: REVERIE_HOME, value: /reverie}
  {{- include "reverie.container" . | nindent 2 }}
  resources:
    requests: {cpu: 100m, memory: 256Mi}
    limits: {cpu: "1", memory: 1Gi}
  volumeMounts:
    - {mountPath: /reverie, name: reverie}
    - {mountPath: /tmp, name: tmp}
{{- end }}
{{- end }}
