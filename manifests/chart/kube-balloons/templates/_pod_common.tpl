{{- /*
What the pods of the service, the guard, the hook and the test share. Each takes root, values (.Values.run or .Values.guard)
and part.
*/}}

{{/* registry/repository:tag@digest of an image's values; its registry is found by the caller. */}}
{{- define "kube-balloons.reference" -}}
{{- $name := printf "%s/%s:%s" (trimSuffix "/" .registry) .image.repository (.image.tag | default .tag) }}
{{- $reference := .image.digest | empty | ternary $name (printf "%s@%s" $name .image.digest) }}
{{- if not (regexMatch "^[A-Za-z0-9][A-Za-z0-9._:@-]*(/[A-Za-z0-9._:@-]+)*$" $reference) }}
{{- fail (printf "image %q is not an image reference; accepted: one such as registry.example/pause:3.10" $reference) }}
{{- end }}
{{- $reference }}
{{- end }}

{{- define "kube-balloons.image" -}}
{{- $registry := .Values.image.registry | default .Values.global.imageRegistry }}
{{- if not $registry }}
{{- fail "image.registry is empty, and so is global.imageRegistry: set it to the registry that your nodes pull from, such as registry.example.com; for an image that was loaded into the nodes (kind, minikube) to docker.io/library" }}
{{- end }}
{{- include "kube-balloons.reference" (dict "registry" $registry "image" .Values.image "tag" .Chart.AppVersion) }}
{{- end }}

{{- define "kube-balloons.podMetadata" -}}
{{- $own := merge (fromYaml (include "kube-balloons.selector" .)) (dict "app.kubernetes.io/part-of" "kube-balloons") -}}
labels:
  {{- merge $own .values.podLabels .root.Values.commonLabels | toYaml | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) .values.podAnnotations .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* All of a pod's spec but its affinity, its spread and our own container. */}}
{{- define "kube-balloons.podTop" -}}
{{- $root := .root }}{{- $values := .values -}}
serviceAccountName: {{ include "kube-balloons.account" . }}
automountServiceAccountToken: true
enableServiceLinks: false
{{- with $root.Values.imagePullSecrets | default $root.Values.global.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
{{- if $values.hostNetwork }}
hostNetwork: true
{{- end }}
{{- with $values.dnsPolicy | default (ternary "ClusterFirstWithHostNet" "" $values.hostNetwork) }}
dnsPolicy: {{ . }}
{{- end }}
{{- range $key, $given := dict "securityContext" $root.Values.podSecurityContext "dnsConfig" $values.dnsConfig "nodeSelector" $values.nodeSelector "tolerations" $values.tolerations "volumes" (concat ($values.extraVolumes | default list) (include "kube-balloons.metricsVolumes" . | fromYamlArray)) }}
{{- with $given }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "kube-balloons.nodeAffinity" -}}
requiredDuringSchedulingIgnoredDuringExecution:
  nodeSelectorTerms:
    - matchExpressions:
        - key: kubernetes.io/os
          operator: In
          values: [linux]
        {{- if .avoidKarpenterNodes }}
        # Never on a node whose arrival it may be holding back.
        - key: karpenter.sh/nodepool
          operator: DoesNotExist
        {{- end }}
{{- end }}

{{- define "kube-balloons.awayFromWarmNodes" -}}
# Nor on a node that is kept warm for others.
- topologyKey: kubernetes.io/hostname
  namespaceSelector: {}
  labelSelector:
    matchExpressions:
      - key: kube-balloons.github.io/pool
        operator: Exists
{{- end }}

{{/* How a Deployment replaces its pods; `rollingUpdate` means nothing to the other type, and is refused there. */}}
{{- define "kube-balloons.strategy" -}}
{{- with .strategy }}
strategy:
  {{- ternary . (omit . "rollingUpdate") (eq (.type | default "RollingUpdate") "RollingUpdate") | toYaml | nindent 2 }}
{{- end }}
{{- end }}

{{/* A container of ours, but for its name, arguments and environment. */}}
{{- define "kube-balloons.container" -}}
image: {{ include "kube-balloons.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
{{- range $key, $given := dict "securityContext" .root.Values.securityContext "resources" .values.resources "envFrom" .values.envFrom "volumeMounts" (concat (.values.extraVolumeMounts | default list) (include "kube-balloons.metricsMounts" . | fromYamlArray)) }}
{{- with $given }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* The certificate by which a pod with a port serves metrics and probes: as it is mounted, and as an option names it. */}}
{{- define "kube-balloons.metricsVolumes" -}}
{{- $tls := .root.Values.metrics.tls }}
{{- if and .port $tls.secret }}
- name: metrics-tls
  secret:
    secretName: {{ $tls.secret }}
    items:
      - {key: {{ $tls.certKey | quote }}, path: tls.crt}
      - {key: {{ $tls.keyKey | quote }}, path: tls.key}
      {{- with $tls.clientCaKey }}
      - {key: {{ . | quote }}, path: clients.crt}
      {{- end }}
{{- end }}
{{- end }}

{{- define "kube-balloons.metricsMounts" -}}
{{- if and .port .root.Values.metrics.tls.secret }}
- {name: metrics-tls, mountPath: /etc/kube-balloons/metrics, readOnly: true}
{{- end }}
{{- end }}

{{- define "kube-balloons.metricsArguments" -}}
- --metrics-address=0.0.0.0:{{ .port }}
{{- with .root.Values.metrics.tls }}{{ if .secret }}
- --metrics-cert-file=/etc/kube-balloons/metrics/tls.crt
- --metrics-key-file=/etc/kube-balloons/metrics/tls.key
{{- if .clientCaKey }}
- --metrics-client-ca-file=/etc/kube-balloons/metrics/clients.crt
{{- end }}
{{- else if .clientCaKey }}
{{- fail (printf "metrics.tls.clientCaKey %s without metrics.tls.secret: name the Secret, or clients are asked for nothing" .clientCaKey) }}
{{- end }}{{ end }}
{{- end }}

{{/* Where metrics and probes are served: port, root, and values with a map per probe. */}}
{{- define "kube-balloons.served" -}}
ports:
  - name: metrics
    containerPort: {{ .port }}
    protocol: TCP
{{- range $probe, $path := dict "livenessProbe" "/healthz" "readinessProbe" "/readyz" }}
{{ $probe }}:
  httpGet:
    path: {{ $path }}
    port: metrics
    {{- if $.root.Values.metrics.tls.secret }}
    scheme: HTTPS
    {{- end }}
  {{- with get $.values $probe }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Where a pod of ours finds its namespace, and what the user adds. */}}
{{- define "kube-balloons.environment" -}}
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- with .env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What of prometheus.* is mounted, file by file: where it is from, and the option of `balloons run` that reads it. */}}
{{- define "kube-balloons.prometheusFiles" -}}
{{- $prometheus := .Values.prometheus }}{{- $ca := $prometheus.ca }}
{{- if and $ca.configMap $ca.secret }}
{{- fail (printf "prometheus.ca.configMap %s and prometheus.ca.secret %s: one of them" $ca.configMap $ca.secret) }}
{{- end }}
{{- with $ca.configMap }}
- {source: {configMap: {name: {{ . }}, items: [{key: {{ $ca.key | quote }}, path: ca.crt}]}}, files: [ca=ca.crt]}
{{- end }}
{{- with $ca.secret }}
- {source: {secret: {name: {{ . }}, items: [{key: {{ $ca.key | quote }}, path: ca.crt}]}}, files: [ca=ca.crt]}
{{- end }}
{{- with $prometheus.token }}{{ if .secret }}
- {source: {secret: {name: {{ .secret }}, items: [{key: {{ .key | quote }}, path: token}]}}, files: [token=token]}
{{- end }}{{ end }}
{{- with $prometheus.client }}{{ if .secret }}
- source:
    secret:
      name: {{ .secret }}
      items: [{key: {{ .certKey | quote }}, path: tls.crt}, {key: {{ .keyKey | quote }}, path: tls.key}]
  files: [cert=tls.crt, key=tls.key]
{{- end }}{{ end }}
{{- end }}
