{{/* The pod of all processes. `command`: the arguments of the program; `role`: the name of the component. */}}
{{- define "halcyon.labels" -}}
app.kubernetes.io/name: halcyon
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "halcyon.pod" -}}
{{- $ := .root }}
securityContext: { runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000, seccompProfile: { type: RuntimeDefault } }
automountServiceAccountToken: false
# The program ends within eleven seconds after SIGTERM.
terminationGracePeriodSeconds: 20
volumes:
  - { name: tmp, emptyDir: { sizeLimit: 64Mi } }
  - name: secrets
    secret:
      secretName: {{ required "secret: the name of the Secret with the secret settings" $.Values.secret }}
      defaultMode: 0440
containers:
  - name: halcyon
    image: {{ printf "%s:%s" $.Values.image.repository (default $.Chart.AppVersion $.Values.image.tag) | quote }}
    imagePullPolicy: {{ $.Values.image.pullPolicy }}
    args: {{ toJson .command }}
    securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: [ALL] } }
    env:
      - { name: PROCESSES, value: '1' }
      {{- range $name, $value := $.Values.settings }}
      - { name: {{ $name }}, value: {{ $value | quote }} }
      {{- end }}
      {{- range $name, $key := $.Values.secretSettings }}
      - { name: {{ $name }}_FILE, value: {{ printf "/run/secrets/halcyon/%s" $key | quote }} }
      {{- end }}
    volumeMounts:
      - { name: tmp, mountPath: /tmp }
      - { name: secrets, mountPath: /run/secrets/halcyon, readOnly: true }
    {{- with .resources }}
    resources: {{ toJson . }}
    {{- end }}
    {{- if .isServer }}
    ports:
      - { name: http, containerPort: 8080 }
      - { name: metrics, containerPort: 9464 }
    startupProbe: { httpGet: { path: /health/live, port: metrics }, periodSeconds: 2, failureThreshold: 60 }
    livenessProbe: { httpGet: { path: /health/live, port: metrics }, periodSeconds: 10, timeoutSeconds: 3 }
    readinessProbe: { httpGet: { path: /health/ready, port: metrics }, periodSeconds: 5, timeoutSeconds: 3 }
    {{- end }}
{{- end }}
