"""Makes provider/schema.json: what arguments and attributes the resources of terraform/ have in the real provider.

The provider itself cannot be had from a package registry; its bindings for Python can, and they are generated from its schema. They carry the
generator's TypeScript in a source map, which says of every attribute whether it is computed, optional or required.

    tests/terraform/schema.py          writes the table anew (a network and a minute; only when the module uses another resource, or for a newer version)
    tests/terraform/schema.py --names  prints which resources and data sources the module and its examples use
"""

import base64
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile

BINDINGS = "cdktf-cdktf-provider-aws==21.22.1"
ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = pathlib.Path(__file__).resolve().parent / "provider" / "schema.json"

SIMPLE = {
    "getStringAttribute": "string",
    "getNumberAttribute": "number",
    "getBooleanAttribute": "bool",
    "getListAttribute": ["list", "string"],
    "getNumberListAttribute": ["list", "number"],
    "getStringMapAttribute": ["map", "string"],
    "getBooleanMapAttribute": ["map", "bool"],
    "getNumberMapAttribute": ["map", "number"],
}


def used():
    """The kinds and names of what the configuration names: ("resource", "aws_sqs_queue")."""
    pairs = set()
    for file in (ROOT / "terraform").rglob("*.tf"):
        pairs.update(re.findall(r'^(resource|data) "(aws_\w+)"', file.read_text(), re.M))
    return sorted(pairs)


def classes(source):
    """The body of each class by its name."""
    starts = list(re.finditer(r"^export class (\w+) extends", source, re.M))
    ends = [start.start() for start in starts[1:]] + [len(source)]
    return {start.group(1): source[start.start() : end] for start, end in zip(starts, ends)}


def written(text):
    """Of each argument of one Hcl function: whether it is a block, and how it is nested."""
    entry = re.compile(r"^\s+(\w+): \{\s+value: .*\s+isBlock: (true|false),\s+type: \"(\w+)\",\s+storageClassType: \"(\w+)\",", re.M)
    return {name: (block == "true", nesting) for name, block, nesting, _ in entry.findall(text)}


class Source:
    """One resource of the bindings."""

    def __init__(self, text):
        self.text = text
        self.classes = classes(text)

    def main(self):
        for name, body in self.classes.items():
            if "synthesizeHclAttributes" in body:
                return name, written(body.split("synthesizeHclAttributes", 1)[1])
        raise SystemExit("schema.py: the bindings have another shape: no class with synthesizeHclAttributes")

    def arguments(self, struct):
        lower = struct[0].lower() + struct[1:]
        match = re.search(rf"^export function {lower}ToHclTerraform\(.*?^}}", self.text, re.M | re.S)
        return written(match.group(0)) if match else {}

    def fields(self, body):
        """Name, (computed, optional, required), and what follows, of each field of a class."""
        pattern = r"^  // (\w+) - computed: (true|false), optional: (true|false), required: (true|false)\n"
        found = list(re.finditer(pattern, body, re.M))
        ends = [match.start() for match in found[1:]] + [len(body)]
        for match, end in zip(found, ends):
            name, *flags = match.groups()
            yield name, tuple(flag == "true" for flag in flags), body[match.end() : end]

    def block(self, name, args):
        """A block: its attributes, and the blocks in it."""
        attributes, blocks = {}, {}
        for field, (computed, optional, required), text in self.fields(self.classes[name]):
            nested = re.search(r'= new (\w+?)(OutputReference|List|Map)\(this, "\w+"(?:, (true|false))?\)', text)
            is_block, nesting = args.get(field, (False, None))
            if nested and is_block:
                inner = nested.group(1)
                one = nested.group(2) == "OutputReference"
                # A struct is an attribute of one object; lists and sets with an OutputReference take one block at most.
                nesting = "single" if nesting == "struct" and field == "timeouts" else "set" if nested.group(3) == "true" else "list"
                blocks[field] = {"nesting": nesting, **({"max": 1} if one else {}), **({"min": 1} if required else {}), **self.block(f"{inner}OutputReference", self.arguments(inner))}
                continue
            attributes[field] = {"type": self.type_of(text, nested), **{word: True for word, on in (("computed", computed), ("optional", optional), ("required", required)) if on}}
        return {"attributes": attributes, "blocks": blocks}

    def type_of(self, text, nested):
        if nested:
            members = {field: self.type_of(rest, re.search(r'= new (\w+?)(OutputReference|List|Map)\(this, "\w+"(?:, (true|false))?\)', rest)) for field, _, rest in self.fields(self.classes[f"{nested.group(1)}OutputReference"])}
            kind = {"OutputReference": "list", "Map": "map", "List": "set" if nested.group(3) == "true" else "list"}[nested.group(2)]
            return [kind, ["object", members]]
        method = re.search(r"(tolist\()?this\.(get\w+Attribute)\(", text)
        if method and method.group(2) in SIMPLE:
            known = SIMPLE[method.group(2)]
            return ["set", known[1]] if method.group(1) else known
        # What the bindings have no type for; nothing of ours.
        return "string"


def bindings(folder):
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, BINDINGS], check=True)
    wheel = zipfile.ZipFile(next(pathlib.Path(folder).glob("*.whl")))
    archive = next(name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
    wheel.extract(archive, folder)
    return pathlib.Path(folder) / archive


def sources(archive, pairs):
    """The TypeScript of each pair. An archive that is compressed is read once, from front to back."""
    wanted = {f"package/lib/{'data-' if kind == 'data' else ''}{name.replace('_', '-') if kind == 'data' else name.removeprefix('aws_').replace('_', '-')}/index.js": (kind, name) for kind, name in pairs}
    found = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.name in wanted:
                script = tar.extractfile(member).read().decode()
                encoded = re.search(r"sourceMappingURL=data:application/json;base64,(\S+)", script).group(1)
                found[wanted[member.name]] = json.loads(base64.b64decode(encoded))["sourcesContent"][0]
    missing = set(wanted.values()) - found.keys()
    if missing:
        raise SystemExit(f"schema.py: {BINDINGS} has no {sorted(missing)}")
    return found


def main():
    pairs = used()
    if sys.argv[1:] == ["--names"]:
        print(*(f"{kind} {name}" for kind, name in pairs), sep="\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        texts = sources(bindings(folder), pairs)
    version = re.search(r"providers/hashicorp/aws/([0-9.]+)/docs", next(iter(texts.values()))).group(1)
    table = {"provider": version, "bindings": BINDINGS, "resource": {}, "data": {}}
    for kind, name in pairs:
        source = Source(texts[(kind, name)])
        table[kind][name] = source.block(*source.main())
    TABLE.write_text(render(table))


def render(table):
    """One line for each attribute and block, so that a difference can be read."""
    text = json.dumps(table, indent=1, sort_keys=True)
    text = re.sub(r"\[\s+\"(list|set|map)\",\s+\"(\w+)\"\s+\]", r'["\1", "\2"]', text)
    return re.sub(r"\{\s+((?:\"(?:computed|optional|required)\": true,\s+)*\"type\": (?:\"\w+\"|\[\"\w+\", \"\w+\"\]))\s+\}", lambda m: "{ " + re.sub(r"\s+", " ", m.group(1)) + " }", text) + "\n"


if __name__ == "__main__":
    main()
