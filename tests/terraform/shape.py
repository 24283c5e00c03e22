"""What no plan shows: what is made before what."""

import os
import pathlib
import re
import subprocess
import unittest

TERRAFORM = str(pathlib.Path(os.environ["SUNDOWN_TERRAFORM_TOOLS"]) / "bin" / "terraform")
# The copy that was initialised.
MODULE = os.environ["SUNDOWN_TERRAFORM_COPY"]
HOOKS = ["aws_autoscaling_lifecycle_hook.launch", "aws_autoscaling_lifecycle_hook.terminate"]


def edges():
    """Who needs whom, each as `type.name`."""
    graph = subprocess.run([TERRAFORM, f"-chdir={MODULE}", "graph", "-type=plan"], capture_output=True, text=True, check=True).stdout
    name = r'"(?:\[root\] )?(?:module\.[\w.]+\.)?((?:\w+\.)?\w+\.\w+)[^"]*"'
    found = {}
    for one, other in re.findall(name + " -> " + name, graph):
        found.setdefault(one, set()).add(other)
    return found


def before(found, start):
    """All that is made before `start`."""
    seen, todo = set(), [start]
    while todo:
        for other in found.get(todo.pop(), ()):
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


class Shape(unittest.TestCase):
    def setUp(self):
        self.edges = edges()

    def test_hooks_come_after_everything_that_answers_them(self):
        for hook in HOOKS:
            earlier = before(self.edges, hook)
            for other in [
                "aws_cloudwatch_event_target.this",
                "aws_cloudwatch_event_rule.this",
                "aws_sqs_queue.this",
                "aws_sqs_queue_policy.this",
                "aws_sqs_queue_policy.undelivered",
                "aws_iam_role.this",
                "aws_iam_policy.this",
                "aws_iam_role_policy_attachment.this",
                "aws_iam_role_policy_attachment.more",
                "aws_eks_pod_identity_association.this",
            ]:
                self.assertIn(other, earlier, hook)

    def test_nothing_comes_after_hooks(self):
        for one in self.edges:
            if one.startswith("aws_") and one not in HOOKS:
                self.assertFalse(before(self.edges, one) & set(HOOKS), one)

    def test_rules_send_only_when_their_queue_lets_them(self):
        self.assertLessEqual({"aws_sqs_queue_policy.this", "aws_sqs_queue_policy.undelivered"}, before(self.edges, "aws_cloudwatch_event_target.this"))
        self.assertIn("aws_sqs_queue_policy.trial", before(self.edges, "aws_cloudwatch_event_target.trial"))


if __name__ == "__main__":
    unittest.main()
