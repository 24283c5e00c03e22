"""The module's `helm_values` are values that the chart takes, and both give the pods the same names."""

import json
import os
import pathlib
import re
import subprocess
import unittest

import jsonschema
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "sundown"
TERRAFORM = str(pathlib.Path(os.environ["SUNDOWN_TERRAFORM_TOOLS"]) / "bin" / "terraform")
# The copy that was initialised.
MODULE = os.environ["SUNDOWN_TERRAFORM_COPY"]


def outputs(folder=MODULE, tests="tests/helm_values.tftest.hcl"):
    """`helm_values` and `trial_helm_values` of each run of a file of tests that applies."""
    command = [TERRAFORM, f"-chdir={folder}", "test", f"-filter={tests}", "-json", "-verbose"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {}
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if "test_state" in message:
            values = {name: output.get("value") for name, output in message["test_state"]["outputs"].items() if name.endswith("helm_values")}
            found.update({f"{message['@testrun']}: {name}": value for name, value in values.items() if value is not None})
    return found


def merged(under, over):
    """Values as Helm lays them over the chart's own."""
    if isinstance(under, dict) and isinstance(over, dict):
        return {key: merged(under.get(key), over[key]) if key in over else under[key] for key in under.keys() | over.keys()}
    return over


class Chart(unittest.TestCase):
    def setUp(self):
        self.schema = json.loads((CHART / "values.schema.json").read_text())
        self.values = yaml.safe_load((CHART / "values.yaml").read_text())

    def test_the_chart_takes_the_values(self):
        found = outputs()
        runs = ["pod_identity", "irsa", "instance_profile_in_china", "hooks_of_the_module_alone", "launch_hooks_too", "trial"]
        self.assertEqual(set(found), {f"{run}: helm_values" for run in runs} | {"trial: trial_helm_values"})
        for run, values in found.items():
            with self.subTest(run):
                jsonschema.validate(merged(self.values, values), self.schema)

    def test_it_takes_those_of_every_example(self):
        examples = [path for path in (pathlib.Path(MODULE) / "examples").iterdir() if path.is_dir()]
        self.assertGreaterEqual(len(examples), 4)
        for example in examples:
            found = outputs(example, "tests/plan.tftest.hcl")
            self.assertTrue(found, example.name)
            for run, text in found.items():
                with self.subTest(f"{example.name}: {run}"):
                    # What a mock calls a queue is a word and no URL.
                    queues = {name: [f"https://sqs.eu-west-1.amazonaws.com/123456789012/sundown-shop{part}"] for name, part in (("queueUrls", ""), ("dlqUrls", "_dead"))}
                    values = merged(yaml.safe_load(text), {"config": queues})
                    jsonschema.validate(merged(self.values, values), self.schema)

    def test_and_not_others(self):
        for name, wrong in [("config", {"queueUrl": "x"}), ("serviceAccount", {"annotation": {}}), ("aws", {"zone": "x"})]:
            with self.subTest(name), self.assertRaises(jsonschema.ValidationError):
                jsonschema.validate(merged(self.values, {name: wrong}), self.schema)

    def test_the_pods_have_the_same_names_in_both(self):
        text = (ROOT / "terraform" / "variables.iam.tf").read_text()
        default = {name: re.search(rf'variable "{name}" {{.*?default\s+= "(\w+)"', text, re.S).group(1) for name in ("namespace", "service_account")}
        self.assertEqual(default["service_account"], self.values["serviceAccount"]["name"])
        self.assertEqual(default["namespace"], "sundown")


if __name__ == "__main__":
    unittest.main()
