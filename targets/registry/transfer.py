"""Packages from place to place: chosen targets of them, several blobs at once, and what refers to them (signatures)."""

from __future__ import annotations

import queue
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from opsplice.common.errors import OpspliceError
from opsplice.targets.registry import package
from opsplice.targets.registry.package import Package, Variant
from opsplice.targets.registry.places import oci
from opsplice.targets.registry.places.oci import Descriptor
from opsplice.targets.registry.places.place import Place
from opsplice.targets.registry.places.transfer_progress import Meter

LARGEST = 8 << 30
_AT_ONCE = 6
_MOST_REFERRERS = 100

Item = TypeVar("Item")
Result = TypeVar("Result")


def copy(
    source: Place,
    target: Place,
    chosen: Package,
    variants: Sequence[Variant],
    tag: str = "",
    meter: Meter | None = None,
) -> int:
    """Copy a package, or some of its variants, with what refers to it; how many bytes of files were copied.

    What the target has is not copied again. The index comes last, so that a name never leads to what is not there.
    Raises OpspliceError if more than 8 GiB would be copied, or a registry would get a part of a package.
    """
    if target.path(chosen.descriptor) is None and set(variants) != set(chosen.variants):
        raise OpspliceError(f"{target} is a registry and takes whole packages", hint="copy all targets of it")
    meter = meter or Meter("")
    found = _at_once(lambda variant: package.contents(source, chosen, variant), variants, meter)
    blobs = {layer.digest: layer for part in found for layer in part.files.values()}
    if (total := sum(blob.size for blob in blobs.values())) > LARGEST:
        raise OpspliceError(f"{chosen} has {total >> 20} MiB of files; at most {LARGEST >> 30} GiB are copied")
    copied = _copy_blobs(source, target, list(blobs.values()), meter)
    for variant, part in zip(variants, found, strict=True):
        target.put_bytes(source.read(part.config), part.config.media_type)
        target.put_manifest(source.read(variant.descriptor), oci.MANIFEST)
    _copy_referrers(source, target, chosen.descriptor)
    target.put_manifest(source.read(chosen.descriptor), oci.INDEX, tag)
    return copied


def _copy_referrers(source: Place, target: Place, descriptor: Descriptor) -> None:
    found = source.referrers(descriptor.digest)
    if len(found) > _MOST_REFERRERS:
        raise OpspliceError(f"{len(found)} manifests refer to {descriptor.digest} in {source}: too many")
    for entry in found:
        manifest = oci.parse_manifest(source.read(entry))
        if manifest.subject is None or manifest.subject.digest != descriptor.digest:
            raise OpspliceError(f"{source} lists {entry.digest} for {descriptor.digest}, which it does not refer to")
        for blob in (manifest.config, *manifest.layers):
            target.put_bytes(source.read(blob), blob.media_type)
        target.put_manifest(source.read(entry), oci.MANIFEST)


def _copy_blobs(source: Place, target: Place, blobs: list[Descriptor], meter: Meter) -> int:
    there = _at_once(target.has, blobs, meter)
    missing = [blob for blob, has in zip(blobs, there, strict=True) if not has]
    copied = sum(blob.size for blob in missing)
    meter.expect(copied)
    # The largest first, so that none of them is what the others wait for in the end.
    missing.sort(key=lambda blob: blob.size, reverse=True)
    _at_once(lambda blob: _move(source, target, blob, meter), missing, meter)
    return copied


def _move(source: Place, target: Place, blob: Descriptor, meter: Meter) -> None:
    if (into := target.path(blob)) is not None:
        source.fetch(blob, into, meter)
    elif (file := source.path(blob)) is not None:
        target.put_blob(blob, file, meter)
    else:
        with tempfile.TemporaryDirectory(prefix="opsplice-") as folder:
            source.fetch(blob, Path(folder) / blob.hex)
            target.put_blob(blob, Path(folder) / blob.hex, meter)


def _at_once(act: Callable[[Item], Result], items: Iterable[Item], meter: Meter) -> list[Result]:
    """What `act` gives for each item, of which several run at once. The first failure, or Ctrl-C, ends it.

    Threads that wait for a silent server then end when it says something, and keep nobody waiting.
    """
    listed = list(items)
    # One iterator for all threads: each takes the next from it.
    todo = iter(list(enumerate(listed)))
    found: dict[int, Result] = {}
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def work() -> None:
        try:
            for number, item in todo:
                if meter.stopped:
                    break
                found[number] = act(item)
            ended.put(None)
        except BaseException as error:
            ended.put(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in listed[:_AT_ONCE]]
    try:
        for thread in threads:
            thread.start()
        for _ in threads:
            if (error := ended.get()) is not None:
                raise error
    except BaseException:
        meter.stop()
        raise
    for thread in threads:
        thread.join()  # at their very end; a process may fork only when it has none
    return [found[number] for number in range(len(found))]
