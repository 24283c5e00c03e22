# No provider: what this module says can be tested anywhere, without an account.
terraform {
  required_version = ">= 1.7"
}
