"""The rendered policies say what the table of calls says, and AWS knows every action, resource and condition in them.

`tests/documents/iam.rs` holds the table against the calls of the code.
"""

import json
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import rendered

TABLE = json.loads((rendered.ROOT / "terraform" / "modules" / "policy" / "calls.json").read_text())
KNOWN = json.loads((rendered.TOOLS / "iam-definition.json").read_text())

SQS = f"arn:aws:sqs:{rendered.REGION}:{rendered.ACCOUNT}"
QUEUE, DEAD, UNDELIVERED, TRIAL = (f"{SQS}:sundown-shop{part}" for part in ("", "_dead", "_undelivered", "_queue-trial"))
RULES = [f"arn:aws:events:{rendered.REGION}:{rendered.ACCOUNT}:rule/sundown-shop_{event}" for event in ("spot", "terminate")]
KEY = f"arn:aws:kms:{rendered.REGION}:{rendered.ACCOUNT}:key/12345678-1234-1234-1234-123456789012"
VARIABLES = {
    "queue_arns": {"queue": QUEUE, "dead": DEAD, "undelivered": UNDELIVERED, "trial": TRIAL},
    "rule_arns": RULES,
    "kms_key_arn": KEY,
    "fault_target_tags": {"team": "shop"},
    "sender_arns": [f"arn:aws:iam::{rendered.ACCOUNT}:role/notifications"],
}

GROUPS = f"arn:aws:autoscaling:{rendered.REGION}:{rendered.ACCOUNT}:autoScalingGroup:*:autoScalingGroupName/*"
# Each place of the table, as pairs of a resource and a condition.
PLACES = {
    "queue": [(QUEUE, {})],
    "dead_queue": [(DEAD, {})],
    "other_queues": [(DEAD, {}), (UNDELIVERED, {}), (TRIAL, {})],
    "trial_queue": [(TRIAL, {})],
    "groups": [
        (GROUPS, {"StringEquals": {"aws:ResourceTag/eks:cluster-name": ["shop"]}}),
        (GROUPS, {"Null": {"aws:ResourceTag/kubernetes.io/cluster/shop": ["false"]}}),
    ],
    "region": [("*", {"StringEquals": {"aws:RequestedRegion": [rendered.REGION]}})],
    "rules": [(rule, {}) for rule in RULES],
    "test_bus": [
        (
            f"arn:aws:events:{rendered.REGION}:{rendered.ACCOUNT}:event-bus/default",
            {
                "ForAllValues:StringEquals": {
                    "events:source": ["sundown.test"],
                    "events:detail-type": [
                        "AWS Health Event",
                        "Capacity Block Expiration Warning",
                        "Capacity Block Reservation Expiration Warning",
                        "EC2 Capacity Reservation Instance Interruption Warning",
                        "EC2 Instance Launch Successful",
                        "EC2 Instance Rebalance Recommendation",
                        "EC2 Instance State-change Notification",
                        "EC2 Instance-launch Lifecycle Action",
                        "EC2 Instance-terminate Lifecycle Action",
                        "EC2 Spot Instance Interruption Warning",
                    ],
                },
                "Null": {"events:source": ["false"], "events:detail-type": ["false"]},
            },
        )
    ],
}


def listed(value):
    return value if isinstance(value, list) else [value]


def flat(policy):
    """Every permission of a policy by itself: effect, action, resource, condition."""
    return sorted(
        (statement["Effect"], action, resource, json.dumps(statement.get("Condition", {}), sort_keys=True))
        for statement in policy["Statement"]
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    )


def expected(scope):
    """The same, out of the table."""
    return sorted(
        ("Allow", action, resource, json.dumps(condition, sort_keys=True))
        for call in TABLE[scope].values()
        for action in call["actions"]
        for on in listed(call["on"])
        for resource, condition in PLACES[on]
    )


def matches(resource, pattern):
    """Whether an ARN, which may have wildcards, is one of a resource type: their parts agree one by one."""
    kind = re.escape(re.sub(r"\$\{\w+\}", "\0", pattern)).replace("\0", r"[^:/]+")
    return re.fullmatch(kind, resource.replace("*", "x")) is not None


class Permissions(unittest.TestCase):
    def policies(self):
        out = rendered.outputs(**VARIABLES)
        yield "service", json.loads(out["service_policy"])
        for scope, text in out["permission_policies"].items():
            yield scope, json.loads(text)
        yield "delivery", json.loads(out["delivery_policy"])
        yield "fault", json.loads(out["fault_policy"])

    def test_what_is_rendered_is_the_table(self):
        found = dict(self.policies())
        self.assertEqual(set(TABLE), {"service", "trial", "check", "test", "afterwards", "impaired"})
        for scope in TABLE:
            with self.subTest(scope):
                key = [("Allow", "kms:Decrypt", KEY, "{}")] if scope == "service" else []
                self.assertEqual(flat(found[scope]), sorted(expected(scope) + key))

    def test_without_a_key_it_is_the_table_alone(self):
        out = rendered.outputs(**{**VARIABLES, "kms_key_arn": None})
        self.assertEqual(flat(json.loads(out["service_policy"])), expected("service"))

    def test_a_group_that_is_named_is_allowed_whatever_its_tags(self):
        named = GROUPS.removesuffix("*") + "general"
        actions = {action for call in TABLE["service"].values() for action in call["actions"] if call["on"] == "groups"}
        self.assertEqual(len(actions), 2)
        out = rendered.outputs(**{**VARIABLES, "group_names": ["general"]})
        added = {("Allow", action, named, "{}") for action in actions}
        before = set(flat(json.loads(rendered.outputs(**VARIABLES)["service_policy"])))
        self.assertEqual(set(flat(json.loads(out["service_policy"]))) - before, added)

    def test_aws_knows_every_action(self):
        for scope, policy in self.policies():
            for _, action, resource, condition in flat(policy):
                with self.subTest(f"{scope}: {action} on {resource}"):
                    service, name = action.split(":")
                    self.assertIn(name, KNOWN[service]["privileges"], "there is no such action")
                    self.check(service, KNOWN[service]["privileges"][name]["resource_types"], resource, json.loads(condition))

    def check(self, service, types, resource, condition):
        """The resource is of a type that the action takes, and the condition's keys are ones that it knows."""
        kinds = [kind for kind in types if kind]
        if resource == "*":
            # To narrow what can be narrowed is our duty.
            self.assertFalse(kinds, "the action takes a resource")
        else:
            taken = [kind for kind in kinds if matches(resource, KNOWN[service]["resources"][kind]["arn"])]
            self.assertTrue(taken, f"the action takes {kinds}")
        known = {key for kind in types.values() for key in kind["condition_keys"]}
        known |= {key for kind in kinds for key in KNOWN[service]["resources"][kind]["condition_keys"]}
        for keys in condition.values():
            for key in keys:
                general = re.sub(r"^(aws:ResourceTag|aws:RequestTag)/.*", r"\1/${TagKey}", key)
                # This one every call has.
                self.assertTrue(general in known or general == "aws:RequestedRegion", f"{key} is none of {sorted(known)}")

    def test_policies_of_queues_and_keys_name_actions_that_there_are(self):
        out = rendered.outputs(**VARIABLES)
        texts = [*out["queue_policies"].values(), out["key_policy"], out["trust_policy"], out["delivery_trust_policy"], out["fault_trust_policy"]]
        seen = {action for text in texts for statement in json.loads(text)["Statement"] for action in listed(statement["Action"])}
        self.assertEqual({a for a in seen if a.endswith("*")}, {"sqs:*", "kms:*"}, "denied to who does not encrypt; and the account's own key")
        for action in seen - {"sqs:*", "kms:*"}:
            service, name = action.split(":")
            self.assertIn(name, KNOWN[service]["privileges"], action)

    def test_every_queue_that_is_made_for_reading_is_read_by_one_policy(self):
        readers = {}
        for scope, policy in self.policies():
            for _, action, resource, _ in flat(policy):
                if action == "sqs:ReceiveMessage":
                    readers.setdefault(resource, []).append(scope)
        self.assertEqual(readers, {QUEUE: ["service"], TRIAL: ["trial"]})

    def test_a_trial_calls_what_the_service_looks_up_and_writes_nothing_but_its_queue(self):
        # It does not sweep, and does not look for scheduled events.
        not_of_trial = {"DescribeInstanceStatus", "DescribeWarmPool"}
        looks_up = {name: call for name, call in TABLE["service"].items() if name not in not_of_trial}
        looked_up = {name: call for name, call in looks_up.items() if listed(call["on"]) == ["region"]}
        received = {name: {**call, "on": "trial_queue"} for name, call in TABLE["service"].items() if "queue" in listed(call["on"])}
        self.assertEqual(TABLE["trial"], {**looked_up, **received})

    def test_sids_have_letters_and_digits(self):
        for scope, policy in self.policies():
            sids = [statement["Sid"] for statement in policy["Statement"]]
            self.assertEqual(len(set(sids)), len(sids), scope)
            for sid in sids:
                self.assertRegex(sid, r"^[0-9A-Za-z]+$", scope)


if __name__ == "__main__":
    unittest.main()
