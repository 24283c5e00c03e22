output "helm_values" {
  description = "For the chart: `terraform output -raw helm_values > values.yaml`, then `helm upgrade --install sundown … --values values.yaml`."
  value = yamlencode(merge(module.sundown.helm_values, {
    # Only the controllers have the role. Elsewhere the pods would have no right, and never be ready. Both lists replace the chart's.
    nodeSelector = { "kubernetes.io/os" = "linux", "node-role.kubernetes.io/control-plane" = "" }
    tolerations = [
      { key = "node-role.kubernetes.io/control-plane", operator = "Exists", effect = "NoSchedule" },
      { key = "CriticalAddonsOnly", operator = "Exists" },
    ]
  }))
}
