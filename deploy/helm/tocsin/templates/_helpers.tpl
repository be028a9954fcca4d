{{- define "tocsin.name" -}}
{{ .Release.Name }}-tocsin
{{- end -}}
{{- define "tocsin.labels" -}}
app.kubernetes.io/name: tocsin
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
