{{- /* What the pods of `balloons run` and `balloons guard` share. Each takes root, values (.Values.run or .Values.guard), name. */}}
{{- define "kube-balloons.podTop" -}}
{{- $root := .root }}{{- $values := .values -}}
serviceAccountName: {{ .name }}
automountServiceAccountToken: true
enableServiceLinks: false
{{- include "kube-balloons.pullSecrets" $root }}
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
{{- with $values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- if $values.runAsUser }}
  runAsUser: {{ int64 $values.runAsUser }}
  runAsGroup: {{ int64 $values.runAsUser }}
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
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

{{- define "kube-balloons.container" -}}
image: {{ include "kube-balloons.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- with .values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.extraVolumeMounts }}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
