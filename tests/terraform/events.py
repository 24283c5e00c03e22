"""Every body that the parser knows goes through EventBridge (moto's) to exactly the queue of its own rule.

moto does not keep the sources that begin with `aws.` for AWS, so what AWS sends can be sent here.
"""

import datetime
import json
import sys
import pathlib
import unittest

import boto3
from moto import mock_aws

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import rendered

BODIES = rendered.ROOT / "tests" / "fuzz" / "corpus" / "parse"

# Which rule an event is of; None: it is none of ours.
RULE = {
    "capacity": "capacity",
    "capacity_block": "capacity",
    "health": "health",
    "launch": "launch",
    # Not out of a warm pool.
    "launch_successful": None,
    "other_source": None,
    "rebalance": "rebalance",
    "replace_root_volume": "terminate",
    "spot_hibernate": "spot",
    "spot_stop": "spot",
    "spot_terminate": "spot",
    "state_running": None,
    "state_shutting_down": "state",
    "terminate": "terminate",
    "terminate_in_warm_pool": "terminate",
    "terminate_settings": "terminate",
    "terminate_test": "terminate",
    "terminate_to_warm_pool": "terminate",
}
# What comes another way: by Auto Scaling's own notification, by SNS, or from nowhere.
NO_EVENT = {"empty_object", "native_terminate", "native_test", "sns_native", "sns_native_lines", "sns_spot", "sns_subscription", "sns_terminate", "sns_test", "wrapped_native"}


def body(name):
    return json.loads((BODIES / f"{name}.json").read_text())


def changed(name, **detail):
    event = body(name)
    event["detail"].update(detail)
    return event


@mock_aws
class Events(unittest.TestCase):
    def setUp(self):
        self.patterns = {}

    def wire(self, patterns):
        """A rule and a queue for each pattern."""
        session = boto3.Session("testing", "testing", region_name=rendered.REGION)
        self.events, self.sqs = session.client("events"), session.client("sqs")
        self.queues = {}
        for rule, pattern in patterns.items():
            url = self.sqs.create_queue(QueueName=f"q-{rule}")["QueueUrl"]
            arn = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
            self.events.put_rule(Name=rule, EventPattern=pattern)
            self.events.put_targets(Rule=rule, Targets=[{"Id": "queue", "Arn": arn}])
            self.queues[rule] = url

    def deliver(self, event, source=None):
        """The rules whose queues an event came to, with the detail that came."""
        # One of AWS's own examples spells it the other way.
        kind = event.get("detail-type") or event["detail_type"]
        entry = {"Source": source or event["source"], "DetailType": kind, "Detail": json.dumps(event["detail"])}
        answer = self.events.put_events(Entries=[entry])
        self.assertEqual(answer["FailedEntryCount"], 0, answer)
        return self.received(lambda came: self.assertEqual((came["detail"], came["detail-type"]), (event["detail"], kind)))

    def received(self, look=lambda came: None):
        """Takes every message out of every queue; the rules of these queues."""
        reached = []
        for rule, url in self.queues.items():
            for message in self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=0).get("Messages", []):
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                look(json.loads(message["Body"]))
                reached.append(rule)
        return reached

    def test_every_body_is_told_what_it_is(self):
        there = {file.stem for file in BODIES.glob("*.json")}
        self.assertEqual(there, set(RULE) | NO_EVENT, "a body without a line in this file, or the other way round")
        for name in NO_EVENT:
            self.assertNotIn("detail", body(name), name)

    def test_every_event_reaches_its_own_rule_and_no_other(self):
        self.wire(rendered.outputs()["patterns"])
        for name, rule in RULE.items():
            with self.subTest(name):
                self.assertEqual(self.deliver(body(name)), [rule] if rule else [])

    def test_every_rule_has_an_event(self):
        self.assertEqual(set(rendered.outputs()["patterns"]), {rule for rule in RULE.values() if rule} | {"warm-pool"})

    def test_hooks_of_eks_are_left_to_it(self):
        self.wire(rendered.outputs()["patterns"])
        self.assertEqual(self.deliver(changed("terminate", LifecycleHookName="Terminate-LC-Hook")), [])
        self.assertEqual(self.deliver(changed("launch", LifecycleHookName="Launch-LC-Hook")), [])
        self.assertEqual(self.deliver(changed("terminate", LifecycleHookName="my-Terminate-LC-Hook")), ["terminate"])

    def test_what_a_pattern_asks_for_decides(self):
        self.wire(rendered.outputs()["patterns"])
        for event, rules in [
            (changed("launch_successful", Origin="WarmPool"), ["warm-pool"]),
            (changed("launch_successful", Origin="WarmPool", Destination="WarmPool"), []),
            (changed("health", service="RDS"), []),
            (changed("health", eventTypeCategory="issue"), []),
            *((changed("state_shutting_down", state=state), ["state"]) for state in ("stopping", "stopped", "shutting-down", "terminated")),
            *((changed("state_shutting_down", state=state), []) for state in ("pending", "running")),
        ]:
            with self.subTest(event["detail"]):
                self.assertEqual(self.deliver(event), rules)

    def test_a_test_event_goes_the_way_of_the_real_one_where_that_is_wanted(self):
        self.wire(rendered.outputs(enable_test_events=True)["patterns"])
        for name, rule in RULE.items():
            with self.subTest(name):
                self.assertEqual(self.deliver(body(name)), [rule] if rule else [])
                if rule or name != "other_source":
                    self.assertEqual(self.deliver(body(name), source="sundown.test"), [rule] if rule else [])

    def test_what_another_account_forwards_reaches_nothing(self):
        self.wire(rendered.outputs(account_id="210987654321")["patterns"])
        for name in RULE:
            self.assertEqual(self.deliver(body(name)), [], name)

    def test_what_is_replayed_out_of_an_archive_reaches_nothing(self):
        patterns = rendered.outputs()["patterns"]
        # A rule that takes it, to see that there is a replay.
        self.wire({**patterns, "all": json.dumps({"source": ["aws.ec2"]})})
        bus = self.events.describe_event_bus(Name="default")["Arn"]
        archive = self.events.create_archive(ArchiveName="a", EventSourceArn=bus)["ArchiveArn"]
        self.assertEqual(self.deliver(body("spot_terminate")), ["spot", "all"])
        start = datetime.datetime(2020, 1, 1)
        self.events.start_replay(
            ReplayName="again", EventSourceArn=archive, EventStartTime=start, EventEndTime=start + datetime.timedelta(days=1), Destination={"Arn": bus}
        )
        self.assertEqual(self.received(), ["all"])

    def test_and_nowhere_else(self):
        self.wire(rendered.outputs()["patterns"])
        for name in RULE:
            self.assertEqual(self.deliver(body(name), source="sundown.test"), [], name)
            self.assertEqual(self.deliver(body(name), source="com.example"), [], name)


if __name__ == "__main__":
    unittest.main()
