locals {
  # Queues take neither dots nor slashes.
  wanted = var.name != null ? var.name : "sundown-${var.cluster_name}"
  base   = replace(local.wanted, "/[^0-9A-Za-z_-]/", "-")
  hash   = substr(sha256(local.wanted), 0, 8)

  # What Terraform appends to a prefix.
  unique = 26

  # How long the name of each thing may be, and what tells it from the others. Alarms may have 255 characters: none of theirs is cut.
  things = merge(
    {
      queue       = { suffix = "", limit = 80 }
      dead        = { suffix = "-dead", limit = 80 }
      undelivered = { suffix = "-undelivered", limit = 80 }
      trial       = { suffix = "-trial", limit = 80 }
      role        = { suffix = "", limit = 64 }
      delivery    = { suffix = "-delivery", limit = 64 }
      fault       = { suffix = "-fault", limit = 64 }
      policy      = { suffix = "", limit = 128 }
      check       = { suffix = "-check", limit = 128 }
      test        = { suffix = "-test", limit = 128 }
      afterwards  = { suffix = "-afterwards", limit = 128 }
    },
    { for event in keys(local.patterns) : "rule_${event}" => { suffix = "-${event}", limit = 64 } },
  )

  # A name that is cut, or had to be changed, keeps a hash of the whole: two clusters whose names begin alike stay apart.
  names = {
    for thing, of in local.things : thing =>
    local.base == local.wanted && length("${local.base}${of.suffix}") <= of.limit
    ? "${local.base}${of.suffix}"
    : "${substr(local.base, 0, of.limit - length(of.suffix) - 9)}-${local.hash}${of.suffix}"
  }

  # The same for a prefix, which ends with a dash.
  prefixes = {
    for thing, of in local.things : thing =>
    local.base == local.wanted && length("${local.base}${of.suffix}-") <= of.limit - local.unique
    ? "${local.base}${of.suffix}-"
    : "${substr(local.base, 0, of.limit - local.unique - length(of.suffix) - 10)}-${local.hash}${of.suffix}-"
  }
}
