"""Python packages with libraries in them, written as an installer leaves them, without running one."""

from __future__ import annotations

from pathlib import Path

# What runs if anybody imports a package of these.
_BOOBY_TRAP = "raise SystemExit('the code of a package ran')\n"


def install(
    site: Path,
    name: str,
    files: dict[str, str],
    *,
    entry: str | None = None,
    version: str = "1.4",
    project: str = "",
    source: Path | None = None,
) -> Path:
    """A distribution in a folder of `sys.path`, whose package `name` has a library in its folder `specs`.

    files: those of the library. entry: its entry point, where it is another. source: where its package is, if it was
    installed to be edited.
    """
    package = (source or site) / name
    (package / "specs").mkdir(parents=True)
    (package / "__init__.py").write_text(_BOOBY_TRAP)
    for file, text in files.items():
        (package / "specs" / file).write_text(text)
    project = project or name.replace("_", "-")
    info = site / f"{project.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {project}\nVersion: {version}\nLicense-Expression: MIT\n"
    )
    (info / "entry_points.txt").write_text(f"[opsplice.libraries]\n{name} = {entry or f'{name}:specs'}\n")
    return package / "specs"
