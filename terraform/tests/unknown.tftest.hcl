# Nothing decides how many there are of a resource that is known only after apply: a first plan would fail with "Invalid for_each argument".

mock_provider "aws" {
  source = "./tests/mocks"
}

run "a_first_plan_is_made_whatever_is_not_known_yet" {
  command = plan
  module {
    source = "./tests/unknown"
  }
}

run "and_it_is_applied" {
  module {
    source = "./tests/unknown"
  }
}
