output "helm_values" {
  description = "For `helm upgrade --install sundown … --values`."
  value       = yamlencode(module.sundown.helm_values)
}
