"""The README leads from nothing to hooks in an order in which no instance waits in vain, by outputs and inputs that there are."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TERRAFORM = ROOT / "terraform"
PAGE = (TERRAFORM / "README.md").read_text()


def section(heading):
    """The text under a heading, to the next of its level."""
    level = heading.split(" ")[0]
    return re.split(rf"\n{level} ", PAGE.split(f"\n{heading}\n", 1)[1])[0]


def names(kind, files):
    return {name for file in files for name in re.findall(rf'^{kind} "(\w+)"', file.read_text(), re.M)}


class Readme(unittest.TestCase):
    def test_hooks_come_after_the_proof_and_the_proof_after_the_chart(self):
        text = section("## In this order")
        steps = [
            "with enable_hooks = false",
            "terraform output -raw helm_values > values.yaml",
            "helm upgrade --install sundown deploy/helm/sundown",
            "rollout status deployment/sundown",
            "helm --namespace sundown test sundown",
            "`enable_hooks = true`",
        ]
        places = [text.index(step) for step in steps]
        self.assertEqual(places, sorted(places))
        self.assertIn("--values values.yaml", text)
        self.assertEqual(text.count("terraform apply"), 2)

    def test_the_first_thing_to_copy_has_no_hooks_and_the_output_that_helm_reads(self):
        block = PAGE.split("```hcl\n", 1)[1].split("```", 1)[0]
        self.assertRegex(block, r"enable_hooks\s+= false")
        self.assertIn('output "helm_values"', block)

    def test_examples_go_the_same_way(self):
        examples = [path for path in (TERRAFORM / "examples").iterdir() if path.is_dir()]
        self.assertGreaterEqual(len(examples), 4)
        for example in examples:
            with self.subTest(example.name):
                variables = (example / "variables.tf").read_text()
                self.assertRegex(variables, r'variable "enable_hooks" \{[^}]*default\s+= false')
                self.assertRegex((example / "main.tf").read_text(), r"enable_hooks\s+= var.enable_hooks")
                outputs = (example / "outputs.tf").read_text()
                self.assertIn('output "helm_values"', outputs)
                self.assertIn("terraform output -raw helm_values", outputs)

    def test_pods_that_get_their_role_by_the_agent_have_the_agent(self):
        for example in (path for path in (TERRAFORM / "examples").iterdir() if path.is_dir()):
            main = (example / "main.tf").read_text()
            # What identity says nothing of is Pod Identity.
            if not re.search(r"identity\s+= ", main):
                with self.subTest(example.name):
                    self.assertIn('"eks-pod-identity-agent"', main)

    def test_what_it_takes_of_the_module_is_there(self):
        prose = PAGE.split("<!-- inputs and outputs")[0]
        outputs = names("output", TERRAFORM.glob("*.tf"))
        inputs = names("variable", TERRAFORM.glob("*.tf"))
        for name in re.findall(r"module\.sundown\.(\w+)", prose):
            self.assertIn(name, outputs)
        for name in re.findall(r"`(\w+) = ", prose):
            # The one that is a group's.
            self.assertIn(name, inputs | {"launch"})
        for block in re.findall(r'module "sundown" \{(.*?)\n\}', prose, re.S):
            for name in re.findall(r"^  (\w+)\s+= ", block, re.M):
                self.assertIn(name, inputs | {"source"})

    def test_what_only_a_reader_can_know_is_said(self):
        known = section("## What to know")
        for words in ["When Terraform replaces a group, its nodes are not drained", "Renaming makes new queues", "Giving up a key", "gets its policy last", "Sundown leaves hooks of others alone"]:
            self.assertIn(words, known)
        self.assertIn("15 minutes", section("## On managed node groups"))


if __name__ == "__main__":
    unittest.main()
