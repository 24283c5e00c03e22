"""What the provider-free module renders, by applying it for real."""

import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = pathlib.Path(os.environ["SUNDOWN_TERRAFORM_TOOLS"])
TERRAFORM = str(TOOLS / "bin" / "terraform")

CLUSTER, REGION, ACCOUNT = "shop", "eu-west-1", "123456789012"
BASE = {"cluster_name": CLUSTER, "region": REGION, "account_id": ACCOUNT}


@functools.cache
def _outputs(variables):
    with tempfile.TemporaryDirectory() as folder:
        module = pathlib.Path(folder) / "policy"
        shutil.copytree(ROOT / "terraform" / "modules" / "policy", module, ignore=shutil.ignore_patterns("tests"))
        (module / "terraform.tfvars.json").write_text(variables)
        for command in (["init", "-backend=false"], ["apply", "-auto-approve"]):
            done = subprocess.run([TERRAFORM, f"-chdir={module}", *command, "-no-color"], capture_output=True, text=True)
            assert done.returncode == 0, f"terraform {command[0]}: {done.stdout}{done.stderr}"
        text = subprocess.run([TERRAFORM, f"-chdir={module}", "output", "-json"], capture_output=True, text=True, check=True).stdout
    return {name: output["value"] for name, output in json.loads(text).items()}


def outputs(**variables):
    """The module's outputs with these variables."""
    return _outputs(json.dumps({**BASE, **variables}, sort_keys=True))
