{{- define "sundown.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* Leaves room for the longest suffix of an object, in the 63 characters of a Service's name. */ -}}
{{- define "sundown.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) }}
{{- default $full .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "sundown.serviceAccountName" -}}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}

{{- /* Of everything that belongs to the release. */ -}}
{{- define "sundown.instanceLabels" -}}
app.kubernetes.io/name: {{ include "sundown.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Of the pods of the Deployment, and of no others. */ -}}
{{- define "sundown.selectorLabels" -}}
{{ include "sundown.instanceLabels" . }}
app.kubernetes.io/component: controller
{{- end }}

{{- /* Of pods: nothing that changes with the chart alone, or every new chart would roll the Deployment. */ -}}
{{- define "sundown.podLabels" -}}
{{ include "sundown.instanceLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "sundown.labels" -}}
{{ include "sundown.podLabels" . }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* Annotations of an object: its own, given as the second of a list, and those of every object. */ -}}
{{- define "sundown.annotations" -}}
{{- with merge (dict) (default dict (index . 1)) (index . 0).Values.additionalAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* A published chart names its image and the digest of it in annotations of Chart.yaml, which the release workflow adds. That digest is of that image alone: a tag or another
repository goes without. */ -}}
{{- define "sundown.image" -}}
{{- $published := index .Chart.Annotations "sundown.dev/image" }}
{{- $repository := default $published .Values.image.repository }}
{{- if not $repository }}
{{- fail "image.repository is empty: there is no published image yet. Build deploy/Dockerfile, push it, and give its repository, as in `--set image.repository=REGISTRY/sundown`." }}
{{- end }}
{{- $digest := .Values.image.digest }}
{{- if not (or $digest .Values.image.tag (ne $repository $published)) }}
{{- $digest = index .Chart.Annotations "sundown.dev/image-digest" }}
{{- end }}
{{- if $digest }}
{{- printf "%s@%s" $repository $digest }}
{{- else }}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- /* A value of `config` as its variable has it: a list with commas, a number in full. */ -}}
{{- define "sundown.setting" -}}
{{- if kindIs "slice" . }}{{ join "," . -}}
{{- else if and (kindIs "float64" .) (eq . (floor .)) }}{{ int64 . -}}
{{- else }}{{ . -}}
{{- end }}
{{- end }}

{{- /* The names of the variables in `extraEnv`, between spaces. */ -}}
{{- define "sundown.extraNames" -}}
{{- range .Values.extraEnv }} {{ .name }} {{ end }}
{{- end }}

{{- /* The value with which Sundown runs, for a list of the root and a key of `config`: that of `extraArgs`, else that of `extraEnv`, else that of `config`. Empty: none of them sets it.
`?`: only the cluster has the value (`valueFrom`, or `$(NAME)`). `extraEnvFrom` is not looked at. */ -}}
{{- define "sundown.effective" -}}
{{- $values := (index . 0).Values }}
{{- $key := index . 1 }}
{{- $variable := printf "SUNDOWN_%s" (snakecase $key | upper) }}
{{- $flag := printf "--%s" (kebabcase $key) }}
{{- $value := include "sundown.setting" (get $values.config $key) }}
{{- range $values.extraEnv }}
{{- if eq .name $variable }}{{ $value = .valueFrom | empty | ternary (default "" .value) "?" }}{{ end }}
{{- end }}
{{- range $n, $arg := $values.extraArgs }}
{{- if hasPrefix (printf "%s=" $flag) $arg }}{{ $value = trimPrefix (printf "%s=" $flag) $arg }}{{ end }}
{{- if and (eq $arg $flag) (lt (add1 $n | int) (len $values.extraArgs)) }}{{ $value = index $values.extraArgs (add1 $n | int) }}{{ end }}
{{- end }}
{{- contains "$(" $value | ternary "?" $value }}
{{- end }}

{{- /* Whether Sundown may delete pods: empty if not. */ -}}
{{- define "sundown.deletes" -}}
{{- /* Whether a rule of rulesFile sets forceAfter is not known here. */}}
{{- $mayForce := or (include "sundown.effective" (list . "rulesFile")) (ne (include "sundown.effective" (list . "forceAfter")) "never") }}
{{- range .Values.podRules }}{{ if .forceAfter }}{{ $mayForce = true }}{{ end }}{{ end }}
{{- if and .Values.rbac.force $mayForce }}true{{ end }}
{{- end }}

{{- /* The variables of every container that runs Sundown. What is empty is not said: a ConfigMap of `extraEnvFrom` may say it. */ -}}
{{- define "sundown.env" -}}
{{- $full := include "sundown.fullname" . }}
{{- $extra := include "sundown.extraNames" . }}
{{- if or (contains " SUNDOWN_DRY_RUN " $extra) (has "--dry-run" .Values.extraArgs) }}
{{- fail "A dry run is said by config.dryRun: by extraEnv or extraArgs the pods would keep the rights to write." }}
{{- end }}
{{- $forceAfter := include "sundown.effective" (list . "forceAfter") }}
{{- /* Only then can the chart set it. */}}
{{- $unset := not (or (include "sundown.setting" (get .Values.config "forceAfter")) (contains " SUNDOWN_FORCE_AFTER " $extra)) }}
{{- if not (or .Values.rbac.force .Values.config.dryRun (has $forceAfter (list "never" "?")) (and $unset (not $forceAfter))) }}
{{- fail (printf "rbac.force: false takes the right to delete pods away, but force-after is %q: Kubernetes would deny each delete. Set config.forceAfter: never or leave it out (also in extraEnv and extraArgs), or set rbac.force: true." $forceAfter) }}
{{- end }}
{{- if not (or .Values.config.queueUrls .Values.extraEnvFrom (contains " SUNDOWN_QUEUE_URL " $extra)) }}
{{- fail "config.queueUrls is empty: give the URL of the queue, as `aws sqs get-queue-url --queue-name NAME` prints it." }}
{{- end }}
# Who we are: where this node drains, the other replica leads, and this pod goes last.
- { name: NODE_NAME, valueFrom: { fieldRef: { fieldPath: spec.nodeName } } }
- { name: POD_NAME, valueFrom: { fieldRef: { fieldPath: metadata.name } } }
- { name: POD_NAMESPACE, valueFrom: { fieldRef: { fieldPath: metadata.namespace } } }
- { name: SUNDOWN_LEASE_NAME, value: {{ $full | quote }} }
{{- if eq (int .Values.metrics.port) (int .Values.probes.port) }}
{{- fail (printf "metrics.port and probes.port are both %d: give each a port of its own." (int .Values.metrics.port)) }}
{{- end }}
- { name: SUNDOWN_METRICS_LISTEN, value: {{ printf "%s:%d" .Values.listenAddress (int .Values.metrics.port) | quote }} }
- { name: SUNDOWN_PROBE_LISTEN, value: {{ printf "%s:%d" .Values.listenAddress (int .Values.probes.port) | quote }} }
{{- with .Values.aws.region }}
- { name: SUNDOWN_REGION, value: {{ . | quote }} }
{{- end }}
{{- range $key, $value := .Values.config }}
{{- $text := include "sundown.setting" $value }}
{{- if and $text (ne $text "false") }}
{{- $variable := get (dict "queueUrls" "QUEUE_URL" "dlqUrls" "DLQ_URL" "logLevel" "LOG" "responses" "ON") $key | default (snakecase $key | upper) }}
- { name: SUNDOWN_{{ $variable }}, value: {{ $text | quote }} }
{{- end }}
{{- end }}
{{- if and $unset (not (include "sundown.deletes" .)) }}
- { name: SUNDOWN_FORCE_AFTER, value: never }
{{- end }}
{{- if and .Values.rbac.disruptionTarget (include "sundown.deletes" .) }}
- { name: SUNDOWN_DISRUPTION_TARGET, value: "true" }
{{- end }}
{{- if .Values.rbac.maintenanceCondition }}
- { name: SUNDOWN_MAINTENANCE_CONDITION, value: "true" }
{{- end }}
{{- if .Values.rbac.drainConditions }}
- { name: SUNDOWN_DRAIN_CONDITIONS, value: "true" }
{{- end }}
{{- if .Values.rbac.deleteNode }}
- { name: SUNDOWN_DELETE_NODE, value: "true" }
{{- end }}
{{- with .Values.webhook }}
{{- if and .urlSecretName $.Values.config.webhookUrl }}
{{- fail "webhook.urlSecretName and config.webhookUrl both give the notification's URL: give one of them." }}
{{- end }}
{{- if and .templateConfigMapName (or $.Values.config.webhookTemplate $.Values.config.webhookTemplateFile) }}
{{- fail "webhook.templateConfigMapName and config.webhookTemplate or config.webhookTemplateFile both give the notification's template: give one of them." }}
{{- end }}
{{- end }}
{{- if .Values.podRules }}
- { name: SUNDOWN_RULES_FILE, value: /etc/sundown/pod-rules/rules.yaml }
{{- end }}
{{- with .Values.webhook.urlSecretName }}
- { name: SUNDOWN_WEBHOOK_URL, valueFrom: { secretKeyRef: { name: {{ . | quote }}, key: {{ $.Values.webhook.urlSecretKey | quote }} } } }
{{- end }}
{{- if .Values.webhook.templateConfigMapName }}
- { name: SUNDOWN_WEBHOOK_TEMPLATE_FILE, value: {{ printf "/etc/sundown/webhook/%s" .Values.webhook.templateConfigMapKey | quote }} }
{{- end }}
{{- with .Values.proxy }}
{{- if or .http .https }}
{{- with .http }}
- { name: HTTP_PROXY, value: {{ . | quote }} }
{{- end }}
{{- with .https }}
- { name: HTTPS_PROXY, value: {{ . | quote }} }
{{- end }}
{{- $direct := concat (list "169.254.170.23" "fd00:ec2::23" "169.254.169.254" "fd00:ec2::254" "localhost" "127.0.0.1" "kubernetes.default.svc" "$(KUBERNETES_SERVICE_HOST)") .noProxy }}
{{- /* Nor can a proxy outside of it reach what is in the cluster: a name of one word, or of a Service. */ -}}
{{- range compact (list $.Values.config.otlpEndpoint $.Values.config.webhookUrl) }}
{{- $host := regexReplaceAll ":[0-9]+$" (urlParse .).host "" }}
{{- if regexMatch "^[^.:]+$|\\.svc(\\.|$)|\\.cluster\\.local\\.?$" $host }}
{{- $direct = append $direct $host }}
{{- end }}
{{- end }}
- { name: NO_PROXY, value: {{ join "," $direct | quote }} }
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "sundown.podAntiAffinity" -}}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (include "sundown.selectorLabels" . | fromYaml)) }}
{{- if eq .Values.antiAffinity "required" }}
requiredDuringSchedulingIgnoredDuringExecution:
  {{- list $term | toYaml | nindent 2 }}
{{- else if eq .Values.antiAffinity "preferred" }}
preferredDuringSchedulingIgnoredDuringExecution:
  {{- list (dict "weight" 100 "podAffinityTerm" $term) | toYaml | nindent 2 }}
{{- end }}
{{- end }}

{{- define "sundown.nodeAffinity" -}}
{{- if .Values.preferOnDemand }}
# A node without the label is none of a spot instance.
preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 100
    preference:
      matchExpressions:
        - { key: eks.amazonaws.com/capacityType, operator: NotIn, values: [SPOT] }
        - { key: karpenter.sh/capacity-type, operator: NotIn, values: [spot] }
        - { key: node.kubernetes.io/lifecycle, operator: NotIn, values: [spot] }
{{- end }}
{{- end }}

{{- define "sundown.affinity" -}}
{{- $own := dict }}
{{- with include "sundown.nodeAffinity" . | fromYaml }}{{ $_ := set $own "nodeAffinity" . }}{{ end }}
{{- with include "sundown.podAntiAffinity" . | fromYaml }}{{ $_ := set $own "podAntiAffinity" . }}{{ end }}
{{- range $field, $terms := .Values.affinity }}{{ $_ := set $own $field $terms }}{{ end }}
{{- with $own }}{{ toYaml . }}{{ end }}
{{- end }}

{{- define "sundown.topologySpreadConstraints" -}}
{{- $all := list }}
{{- if .Values.zoneSpread }}
{{- $selector := dict "matchLabels" (include "sundown.selectorLabels" . | fromYaml) }}
{{- $all = append $all (dict "maxSkew" 1 "topologyKey" "topology.kubernetes.io/zone" "whenUnsatisfiable" "ScheduleAnyway" "labelSelector" $selector) }}
{{- end }}
{{- with concat $all .Values.topologySpreadConstraints }}{{ toYaml . }}{{ end }}
{{- end }}
