{{/* Name of an object: `name`, or else `part`, is what follows the front that all names share; the service has neither. */}}
{{- define "kube-balloons.fullname" -}}
{{- .root.Values.fullnameOverride | default "kube-balloons" }}{{ with .name | default .part }}-{{ . }}{{ end }}
{{- end }}

{{/* The label by which pods of a part are selected. */}}
{{- define "kube-balloons.selector" -}}
app.kubernetes.io/name: {{ .root.Values.nameOverride | default "kube-balloons" }}{{ with .part }}-{{ . }}{{ end }}
{{- end }}

{{/* The account of a part. */}}
{{- define "kube-balloons.account" -}}
{{- $given := dict "" .root.Values.serviceAccount.name "guard" .root.Values.serviceAccount.guardName }}
{{- get $given (.part | default "") | default (include "kube-balloons.fullname" (dict "root" .root "part" .part)) }}
{{- end }}

{{- define "kube-balloons.subject" -}}
kind: ServiceAccount
name: {{ include "kube-balloons.account" . }}
namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/* Labels that the chart adds to every object. */}}
{{- define "kube-balloons.chartLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* metadata of an object: root, part, name; namespace, "-" for an object of the cluster; labels and annotations of its own. */}}
{{- define "kube-balloons.metadata" -}}
{{- $own := merge (fromYaml (include "kube-balloons.selector" .)) (dict "app.kubernetes.io/part-of" "kube-balloons") -}}
name: {{ include "kube-balloons.fullname" . }}
{{- if ne (.namespace | default "") "-" }}
namespace: {{ .namespace | default .root.Release.Namespace }}
{{- end }}
labels:
  {{- merge $own (.labels | default dict) (fromYaml (include "kube-balloons.chartLabels" .root)) | toYaml | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
The objects of a file under files/, which `make manifests` copies from manifests/: in the release's namespace, with the
chart's labels and names. The files are the same that kustomize uses, so the two cannot differ.
*/}}
{{- define "kube-balloons.file" -}}
{{- $text := required (printf "%s is not in the chart: make manifests" .file) (.root.Files.Get .file) }}
{{- $namespace := .root.Release.Namespace }}
{{- $front := include "kube-balloons.fullname" (dict "root" .root) }}
{{- $service := include "kube-balloons.account" (dict "root" .root) }}
{{- $guard := include "kube-balloons.account" (dict "root" .root "part" "guard") }}
{{- /* The service knows the PriorityClass by its name. */}}
{{- if not (contains "\nkind: PriorityClass\n" $text) }}
{{- $text = regexReplaceAll "(?m)^( +(?:- )?(?:name|policyName): )kube-balloons((?:-[a-z]+)*)$" $text (printf "${1}%s${2}" $front) }}
{{- end }}
{{- $account := "(kind: ServiceAccount\n(?:metadata:\n| +serviceAccount:\n)? +name: )" }}
{{- $text = regexReplaceAll (printf "%s%s-guard\n" $account $front) $text (printf "${1}%s\n" $guard) }}
{{- $text = regexReplaceAll (printf "%s%s\n" $account $front) $text (printf "${1}%s\n" $service) }}
{{- $text = $text | replace "namespace: kube-balloons\n" (printf "namespace: %s\n" $namespace) }}
{{- $text = $text | replace "namespaces: [kube-balloons]" (printf "namespaces: [%s]" $namespace) }}
{{- $text = $text | replace "request.namespace == 'kube-balloons'" (printf "request.namespace == '%s'" $namespace) }}
{{- range $known, $name := dict "kube-balloons" $service "kube-balloons-guard" $guard "kube-balloons-give-back" (printf "%s-give-back" $front) }}
{{- $text = $text | replace (printf "'system:serviceaccount:kube-balloons:%s'" $known) (printf "'system:serviceaccount:%s:%s'" $namespace $name) }}
{{- end }}
{{- with .root.Values.nameOverride }}
{{- $text = $text | replace "app.kubernetes.io/name: kube-balloons" (printf "app.kubernetes.io/name: %s" .) }}
{{- end }}
{{- $labels := merge (dict) (.labels | default dict) (fromYaml (include "kube-balloons.chartLabels" .root)) }}
{{- $text = $text | replace "\n  labels:\n" (printf "\n  labels:\n%s\n" (toYaml $labels | indent 4)) }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
{{- $text = $text | replace "\nmetadata:\n" (printf "\nmetadata:\n  annotations:\n%s\n" (toYaml . | indent 4)) }}
{{- end }}
---
{{ $text }}
{{- end }}
