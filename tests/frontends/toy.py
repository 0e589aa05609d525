"""An importer for the tests of the frame: the model is a line that says what the import does."""

import os
import time
from pathlib import Path

from opsplice.common.errors import OpspliceError
from opsplice.frontends.importing import ARCHIVE, MODULE, Request


def import_model(request: Request) -> dict:
    word, *words = request.path.read_text().split()
    if word == "refuse":
        raise OpspliceError(f"{request.name} is refused")
    if word == "crash":
        os.abort()
    if word == "hang":
        time.sleep(60)
    if word == "grow":
        return {"bytes": len(bytearray(64 << 30))}
    (request.folder / MODULE).write_text("module {}")
    if word == "weights":
        (request.folder / ARCHIVE).write_bytes(b"weights")
    beside = [str(request.path.parent / name) for name in words]
    return {"dims": dict(request.dims), "depends": beside, "read": [Path(each).read_text() for each in beside]}
