{{/* Labels that the chart adds to every object. Names are fixed: one installation per cluster, as the CRDs are. */}}
{{- define "kube-balloons.chartLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* All labels of an object of the service; `name` is another one for the guard. */}}
{{- define "kube-balloons.labels" -}}
app.kubernetes.io/name: {{ .name | default "kube-balloons" }}
app.kubernetes.io/part-of: kube-balloons
{{ include "kube-balloons.chartLabels" .root }}
{{- end }}

{{/*
The objects of a file under files/, which `make manifests` copies from manifests/: in the release's namespace, with the
chart's labels. The files are the same that kustomize uses, so the two cannot differ.
*/}}
{{- define "kube-balloons.file" -}}
{{- $text := required (printf "%s is not in the chart: make manifests" .file) (.root.Files.Get .file) }}
{{- $namespace := .root.Release.Namespace }}
{{- $labels := include "kube-balloons.chartLabels" .root | indent 4 }}
{{- $text = $text | replace "namespace: kube-balloons\n" (printf "namespace: %s\n" $namespace) }}
{{- $text = $text | replace "namespaces: [kube-balloons]" (printf "namespaces: [%s]" $namespace) }}
{{- $text = $text | replace "system:serviceaccount:kube-balloons:" (printf "system:serviceaccount:%s:" $namespace) }}
{{- $text = $text | replace "request.namespace == 'kube-balloons'" (printf "request.namespace == '%s'" $namespace) }}
{{- $text = $text | replace "\n  labels:\n" (printf "\n  labels:\n%s\n" $labels) }}
{{- with .annotations }}
{{- $text = $text | replace "\nmetadata:\n" (printf "\nmetadata:\n  annotations:\n%s\n" (toYaml . | indent 4)) }}
{{- end }}
---
{{ $text }}
{{- end }}

{{/* registry/repository:tag@digest */}}
{{- define "kube-balloons.image" -}}
{{- $image := .Values.image }}
{{- with $image.registry | default .Values.global.imageRegistry }}{{ . }}/{{ end }}
{{- $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- with $image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "kube-balloons.pullSecrets" -}}
{{- with .Values.imagePullSecrets | default .Values.global.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
