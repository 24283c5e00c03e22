plugin "terraform" {
  enabled = true
  preset  = "all"
}

# Files are named after what they are about; variables and outputs are in more than one, or in one of that name.
rule "terraform_standard_module_structure" {
  enabled = false
}
