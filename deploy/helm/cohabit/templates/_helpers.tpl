{{/* Labels that Helm adds to every object; those that selectors use are in the manifests. */}}
{{- define "cohabit.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* An image: (list . "serve") or (list . "jobs"). */}}
{{- define "cohabit.image" -}}
{{- $root := index . 0 }}
{{- $name := index . 1 }}
{{- $image := $root.Values.image }}
{{- $digest := index $image (printf "%sDigest" $name) }}
{{- with $image.registry }}{{ trimSuffix "/" . }}/{{ end }}cohabit-{{ $name }}
{{- if $digest }}@{{ $digest }}{{ else }}:{{ $image.tag | default $root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* Settings of every pod. */}}
{{- define "cohabit.settings" -}}
{{- $own := dict }}
{{- with .Values.cluster }}{{- $_ := set $own "COHABIT_CLUSTER" . }}{{- end }}
{{- with .Values.kafka.bootstrap }}{{- $_ := set $own "COHABIT_KAFKA__BOOTSTRAP" . }}{{- end }}
{{- with .Values.kafka.topics }}{{- $_ := set $own "COHABIT_KAFKA__TOPICS" . }}{{- end }}
{{- with .Values.lake.uri }}{{- $_ := set $own "COHABIT_LAKE" . }}{{- end }}
{{- if .Values.admission.enabled }}{{- $_ := set $own "COHABIT_ADVISOR__ADMISSION" .Values.admission.mode }}{{- end }}
{{- toYaml (merge $own .Values.settings) }}
{{- end }}

{{/* All advisors, by name: each ignores itself. */}}
{{- define "cohabit.peers" -}}
{{- $peers := list }}
{{- range until (int .Values.advisor.replicas) }}
{{- $peers = append $peers (printf "https://cohabit-advisor-%d.cohabit-advisor-peers:8081" .) }}
{{- end }}
{{- join "," $peers }}
{{- end }}

{{/* Name of what belongs to no namespace. */}}
{{- define "cohabit.clusterName" -}}
cohabit-watch{{ if ne .Release.Namespace "cohabit" }}-{{ .Release.Namespace }}{{ end }}
{{- end }}

{{/* Name of the webhook, which belongs to no namespace. */}}
{{- define "cohabit.admissionName" -}}
cohabit-admission{{ if ne .Release.Namespace "cohabit" }}-{{ .Release.Namespace }}{{ end }}
{{- end }}
