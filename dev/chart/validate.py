"""Validates rendered manifests against the schemas of Kubernetes, and custom resources against their definitions.

Usage: validate.py <manifests.yaml> <definition.yaml>... Prints each error; exits with 1 if there are any.
"""
import sys

import jsonschema
import kubernetes_validate
import yaml

kubernetes = "1.34"


def reject_unknown_fields(schema):
    """Returns a copy of the schema that rejects unknown fields."""
    if not isinstance(schema, dict):
        return schema
    strict = {
        name: {key: reject_unknown_fields(one) for key, one in value.items()} if name == "properties" else reject_unknown_fields(value)
        for name, value in schema.items()
    }
    if isinstance(strict.get("pattern"), str) and "(?i)" in strict["pattern"]:
        # Go allows this flag in the middle of a pattern; Python requires it at the start.
        strict["pattern"] = "(?i)" + strict["pattern"].replace("(?i)", "")
    open_fields = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if "properties" in schema and not open_fields:
        strict["additionalProperties"] = False
    return strict


def read_schemas(files):
    """Reads the schemas of custom resources, keyed by (apiVersion, kind)."""
    found = {}
    for file in files:
        with open(file, encoding="utf8") as text:
            spec = yaml.safe_load(text)["spec"]
        for version in spec["versions"]:
            schema = reject_unknown_fields(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return found


def main(manifests, *definitions):
    schemas = read_schemas(definitions)
    invalid = 0
    with open(manifests, encoding="utf8") as text:
        documents = [one for one in yaml.safe_load_all(text) if one]
    for document in documents:
        name = f"{document['kind']} {document['metadata']['name']}"
        schema = schemas.get((document["apiVersion"], document["kind"]))
        try:
            if schema:
                jsonschema.validate(document, schema)
            else:
                kubernetes_validate.validate(document, kubernetes, strict=True)
        except (jsonschema.ValidationError, kubernetes_validate.ValidationError) as error:
            invalid += 1
            print(f"{name}: {error.message}")
    print(f"  {len(documents)} manifests, {invalid} invalid")
    return 1 if invalid or not documents else 0


sys.exit(main(*sys.argv[1:]))
