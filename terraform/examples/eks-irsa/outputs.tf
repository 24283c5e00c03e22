output "helm_values" {
  description = "For the chart: `terraform output -raw helm_values > values.yaml`, then `helm upgrade --install sundown … --values values.yaml`."
  value       = yamlencode(module.sundown.helm_values)
}
