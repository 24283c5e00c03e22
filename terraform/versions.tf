terraform {
  # Tests mock the provider, which 1.7 brought.
  required_version = ">= 1.7"
  required_providers {
    aws = {
      source = "hashicorp/aws"
      # Since 6.0 a resource says its region itself: no provider block is needed here, and none is to be passed for another region.
      # 6.2 brought target roles and session tags of Pod Identity.
      version = ">= 6.2"
    }
  }
}
