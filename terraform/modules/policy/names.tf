locals {
  # Queues take neither dots nor slashes. What all names begin with has no underscore, and each part's suffix begins with one: so the part "test"
  # of cluster "shop" is never named like cluster "shop-test".
  wanted = var.name != null ? var.name : "sundown-${var.cluster_name}"

  # A name that is given for one kind of thing is taken as it is, and its other names begin with it.
  given = {
    queues = var.queue_name
    rules  = var.rule_name_prefix
    role   = var.role_name
    others = null
  }
  kind = { for thing in keys(local.things) : thing =>
    startswith(thing, "rule_") ? "rules" : contains(["queue", "dead", "undelivered", "trial"], thing) ? "queues" : thing == "role" ? "role" : "others"
  }
  begin = { for thing, kind in local.kind : thing => coalesce(local.given[kind], local.wanted) }
  base  = { for thing, kind in local.kind : thing => local.given[kind] != null ? local.given[kind] : replace(local.wanted, "/[^0-9A-Za-z-]/", "-") }
  hash  = { for thing, begin in local.begin : thing => substr(sha256(begin), 0, 8) }

  # What Terraform appends to a prefix.
  unique = 26

  # IAM is global: the same cluster name in two regions makes two roles. What Terraform appends to a prefix does so by itself.
  in_iam = ["role", "delivery", "fault", "trial_role", "policy", "check", "test", "afterwards", "impaired", "trial_policy"]
  region = { for thing in keys(local.things) : thing => contains(local.in_iam, thing) && !(thing == "role" && var.role_name != null) ? "_${var.region}" : "" }
  ends   = { for thing, of in local.things : thing => "${of.suffix}${local.region[thing]}" }

  # How long the name of each thing may be, and what tells it from the others. Alarms may have 255 characters: none of theirs is cut.
  things = merge(
    {
      queue       = { suffix = "", limit = 80 }
      dead        = { suffix = "_dead", limit = 80 }
      undelivered = { suffix = "_undelivered", limit = 80 }
      # A trial takes a queue whose name ends with -trial, or has -trial- before what Terraform appends, and no other.
      trial        = { suffix = "_queue-trial", limit = 80 }
      role         = { suffix = "", limit = 64 }
      delivery     = { suffix = "_delivery", limit = 64 }
      fault        = { suffix = "_fault", limit = 64 }
      trial_role   = { suffix = "_trial", limit = 64 }
      policy       = { suffix = "", limit = 128 }
      check        = { suffix = "_check", limit = 128 }
      test         = { suffix = "_test", limit = 128 }
      afterwards   = { suffix = "_afterwards", limit = 128 }
      impaired     = { suffix = "_impaired", limit = 128 }
      trial_policy = { suffix = "_trial", limit = 128 }
    },
    { for event in keys(local.patterns) : "rule_${event}" => { suffix = "_${event}", limit = 64 } },
  )

  # A name that is cut, or had to be changed, keeps a hash of the whole: two clusters whose names begin alike stay apart.
  names = {
    for thing, of in local.things : thing =>
    local.base[thing] == local.begin[thing] && length("${local.base[thing]}${local.ends[thing]}") <= of.limit
    ? "${local.base[thing]}${local.ends[thing]}"
    : "${substr(local.base[thing], 0, of.limit - length(local.ends[thing]) - 9)}-${local.hash[thing]}${local.ends[thing]}"
  }

  # The same for a prefix, which ends with a dash.
  prefixes = {
    for thing, of in local.things : thing =>
    local.base[thing] == local.begin[thing] && length("${local.base[thing]}${of.suffix}-") <= of.limit - local.unique
    ? "${local.base[thing]}${of.suffix}-"
    : "${substr(local.base[thing], 0, of.limit - local.unique - length(of.suffix) - 10)}-${local.hash[thing]}${of.suffix}-"
  }
}
