"""Validates rendered manifests: those of Kubernetes against its own schemas, others against their definitions.

validate.py <manifests.yaml> <definition.yaml>...; prints what is wrong and exits with 1.
"""
import sys

import jsonschema
import kubernetes_validate
import yaml

kubernetes = "1.34"


def closed(schema):
    """A definition's schema, refusing fields that it does not name."""
    if not isinstance(schema, dict):
        return schema
    made = {
        name: {key: closed(one) for key, one in value.items()} if name == "properties" else closed(value)
        for name, value in schema.items()
    }
    if isinstance(made.get("pattern"), str) and "(?i)" in made["pattern"]:
        # Go's way to ignore case in the middle of a pattern.
        made["pattern"] = "(?i)" + made["pattern"].replace("(?i)", "")
    open_fields = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if "properties" in schema and not open_fields:
        made["additionalProperties"] = False
    return made


def schemas_of(files):
    """(apiVersion, kind) → schema."""
    found = {}
    for file in files:
        with open(file, encoding="utf8") as text:
            spec = yaml.safe_load(text)["spec"]
        for version in spec["versions"]:
            schema = closed(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return found


def main(manifests, *definitions):
    schemas = schemas_of(definitions)
    wrong = 0
    with open(manifests, encoding="utf8") as text:
        documents = [one for one in yaml.safe_load_all(text) if one]
    for one in documents:
        name = f"{one['kind']} {one['metadata']['name']}"
        schema = schemas.get((one["apiVersion"], one["kind"]))
        try:
            if schema:
                jsonschema.validate(one, schema)
            else:
                kubernetes_validate.validate(one, kubernetes, strict=True)
        except (jsonschema.ValidationError, kubernetes_validate.ValidationError) as error:
            wrong += 1
            print(f"{name}: {error.message}")
    print(f"  {len(documents)} manifests, {wrong} wrong")
    return 1 if wrong or not documents else 0


sys.exit(main(*sys.argv[1:]))
