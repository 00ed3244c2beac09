"""Signs media files as a provider does, or checks signed files: `sign-c2pa.py sign|check <folder> <file> <type> ...`.

`sign` writes `signed-<file>`. `check` prints the validation state of each file, or `none`."""

import json
import sys
from pathlib import Path

import c2pa

SOURCE_TYPE = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
MANIFEST = {
    "claim_generator_info": [{"name": "provider", "version": "1"}],
    "assertions": [
        {
            "label": "c2pa.actions.v2",
            "data": {"actions": [{"action": "c2pa.created", "digitalSourceType": SOURCE_TYPE}]},
        }
    ],
}


def sign(folder: Path, name: str, mime: str) -> None:
    chain = (folder / "chain.pem").read_bytes()
    key = (folder / "leaf.key").read_bytes()
    info = c2pa.C2paSignerInfo(alg=b"es256", sign_cert=chain, private_key=key, ta_url=None)
    builder = c2pa.Builder({**MANIFEST, "format": mime, "title": name})
    with (folder / name).open("rb") as source, (folder / f"signed-{name}").open("w+b") as target:
        builder.sign(c2pa.Signer.from_info(info), mime, source, target)


def check(folder: Path, name: str, mime: str) -> None:
    try:
        with (folder / name).open("rb") as file:
            print(json.loads(c2pa.Reader(mime, file).json())["validation_state"])
    except c2pa.C2paError as error:
        print("none" if "ManifestNotFound" in str(error) else f"error: {error}")


command = {"sign": sign, "check": check}[sys.argv[1]]
for name, mime in zip(sys.argv[3::2], sys.argv[4::2], strict=True):
    command(Path(sys.argv[2]), name, mime)
