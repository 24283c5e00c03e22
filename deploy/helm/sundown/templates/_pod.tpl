{{- /* What the pods of the Deployment and the pod of `helm test` have in common: the check must see what the service sees. */ -}}
{{- define "sundown.pod" -}}
serviceAccountName: {{ include "sundown.serviceAccountName" . }}
automountServiceAccountToken: true
# No variables of other Services: those of a Service of our name look like settings.
enableServiceLinks: false
{{- with include "sundown.imagePullSecrets" . | fromYamlArray }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .Values.hostNetwork }}
hostNetwork: true
{{- end }}
{{- with .Values.schedulerName }}
schedulerName: {{ . }}
{{- end }}
dnsPolicy: {{ .Values.dnsPolicy }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- $volumes := .Values.extraVolumes }}
{{- with .Values.webhook.templateConfigMapName }}
{{- $volumes = prepend $volumes (dict "name" "webhook-template" "configMap" (dict "name" .)) }}
{{- end }}
{{- if .Values.podRules }}
{{- $volumes = prepend $volumes (dict "name" "pod-rules" "configMap" (dict "name" (printf "%s-pod-rules" (include "sundown.fullname" .)))) }}
{{- end }}
{{- with $volumes }}
volumes:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Ours and those of the chart around this one, which may give names alone. */ -}}
{{- define "sundown.imagePullSecrets" -}}
{{- $names := list }}
{{- range concat .Values.imagePullSecrets (default list (.Values.global).imagePullSecrets) }}
{{- if kindIs "map" . }}{{ $names = append $names (dict "name" .name) }}{{ else }}{{ $names = append $names (dict "name" .) }}{{ end }}
{{- end }}
{{- $names | uniq | toYaml }}
{{- end }}

{{- define "sundown.container" -}}
image: {{ include "sundown.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  {{- include "sundown.env" . | trim | nindent 2 }}
{{- with .Values.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
{{- $mounts := .Values.extraVolumeMounts }}
{{- if .Values.webhook.templateConfigMapName }}
{{- $mounts = prepend $mounts (dict "name" "webhook-template" "mountPath" "/etc/sundown/webhook" "readOnly" true) }}
{{- end }}
{{- if .Values.podRules }}
{{- $mounts = prepend $mounts (dict "name" "pod-rules" "mountPath" "/etc/sundown/pod-rules" "readOnly" true) }}
{{- end }}
{{- with $mounts }}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
