"""The arguments of `opsplice kernel`: plugins, providers, and packages of kernels with their registries."""

from __future__ import annotations

import argparse
from pathlib import Path

from opsplice.commands.arguments import key_arguments
from opsplice.commands.arguments.argument_parts import (
    CPUS,
    Commands,
    Joined,
    add_building,
    add_command,
    add_json,
    add_mirror,
    add_trust,
    add_unsigned,
    grouped,
    targets,
)

_GROUPS = {
    "kernels that programs load at run time": ("plugin", "fat", "provider"),
    "make and publish packages": ("build", "push", "sign", "keygen"),
    "use packages": ("pull", "lock", "mirror", "trust"),
    "look at packages": ("list", "show", "verify", "audit"),
    "the cache": ("gc",),
}


def add_kernel(commands: Commands) -> None:
    parser = add_command(
        commands,
        "kernel",
        "build kernels that programs load at run time, and packages of kernels: publish, pull, sign, audit",
        flags=True,
    )
    parser.formatter_class = grouped(_GROUPS)
    actions = parser.add_subparsers(title="actions", dest="action", metavar="action", required=True)

    about = "build a plugin: the kernels of a spec that are `as plugin`, for --plugin of `opsplice run`"
    plugin = add_command(actions, "plugin", about, flags=False)
    what = "a .splice file, or an installed library (without one the plugin has no functions)"
    plugin.add_argument("spec", nargs="?", help=what)
    plugin.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="what to write, by its ending: .so for this system, .sos for CPUs of any system, .spv for Vulkan",
    )
    plugin.add_argument(
        "--kernel", action="append", default=[], metavar="NAME", help="only this kernel; several times for several"
    )
    plugin.add_argument(
        "--target",
        type=targets,
        action=Joined,
        default=(),
        metavar="TARGET,...",
        help=f"the CPUs to build for: {CPUS}; several go into one .sos",
    )
    plugin.add_argument(
        "--features",
        default="",
        metavar="NAME,...",
        help="what the CPU has, for the kernels' `when`: avx2,fma, or host for what this machine's has",
    )
    add_building(plugin)
    add_json(plugin)

    fat = add_command(actions, "fat", "join plugins (.sos) of several architectures into one", flags=False)
    fat.add_argument("files", nargs="+", metavar="file", help="a .sos of one architecture, or of several")
    fat.add_argument("-o", "--output", required=True, metavar="FILE", help="the .sos to write")
    add_json(fat)

    about = "make a .vmfb of kernels that are `as provided`, so that any host of IREE can provide them"
    provider = add_command(actions, "provider", about, flags=True)
    provider.add_argument(
        "folders", nargs="+", metavar="folder", help="a .kernels folder that `opsplice compile` wrote"
    )
    provider.add_argument("-o", "--output", required=True, metavar="FILE", help="the .vmfb to write")
    provider.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE",
        help="a .spv, .wgsl, .ptx or .ll with functions that the kernels import; the last file with a function wins",
    )
    add_json(provider)

    _add_build(actions)
    _add_push(actions)
    _add_pull(actions)
    _add_list(actions)
    _add_show(actions)
    _add_mirror(actions)
    _add_gc(actions)
    key_arguments.add_actions(actions)


def add_package_options(parser: argparse.ArgumentParser) -> None:
    """Which packages of registries may be used, and where they are looked for."""
    group = parser.add_argument_group("packages of registries (docs/registry.md)")
    group.add_argument(
        "--lock",
        type=Path,
        metavar="FILE",
        help="use the packages that the file pins by digest, and add those that it lacks",
    )
    group.add_argument(
        "--locked",
        action="store_true",
        help="use only what the lock has (default: opsplice.lock), offline where the cache or a mirror has it",
    )
    add_unsigned(group)
    group.add_argument(
        "--allow-code", action="store_true", help="build and run code of packages, too, not only prebuilt artifacts"
    )
    add_trust(group)
    add_mirror(group)


def _add_build(actions: Commands) -> None:
    about = "build all artifacts of a spec for several targets, as a package in the cache"
    build = add_command(actions, "build", about, flags=False)
    build.add_argument("spec", help="a .splice file, or an installed library")
    _add_targets(build, "what to build for", required=True)
    build.add_argument("-o", "--output", metavar="FOLDER", help="write the package as a plain folder, too, for a wheel")
    build.add_argument("--name", default="", help="what specs import it by (default: the spec's name)")
    build.add_argument("--version", default="0", help="the package's version (default: 0)")
    _add_publishing(build)
    add_building(build)
    add_json(build)


def _add_push(actions: Commands) -> None:
    push = add_command(actions, "push", "publish a spec with its artifacts in a registry", flags=False)
    push.add_argument("what", help="a .splice file, which is built, or a folder that `build -o` wrote")
    push.add_argument("to", metavar="oci://HOST/REPOSITORY:TAG", help="where to publish it, and as which version")
    _add_targets(push, "what to build for (default: what `kernel build` last built the spec for)", required=False)
    push.add_argument(
        "--name", default="", help="what specs import it by (default: the repository, acme/kernels as acme_kernels)"
    )
    push.add_argument("--sign", action="append", default=[], metavar="KEY", help="a private key to sign it with")
    _add_publishing(push)
    add_building(push)
    add_json(push)


def _add_publishing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--license", default="", metavar="SPDX", help="such as Apache-2.0")
    parser.add_argument("--partial", action="store_true", help="leave out what no compiler here makes, and list it")


def _add_pull(actions: Commands) -> None:
    pull = add_command(actions, "pull", "copy a package from its registry into the cache", flags=False)
    pull.add_argument("reference", metavar="oci://HOST/REPOSITORY:TAG", help="the package, maybe with @sha256:...")
    _add_targets(pull, "only what a program for these needs (default: all that it has)", required=False)
    add_package_options(pull)
    add_json(pull)


def _add_list(actions: Commands) -> None:
    about = "list the packages of the cache, a registry's repository or a folder, or what is in a plugin"
    listed = add_command(actions, "list", about, flags=False)
    listed.add_argument(
        "place",
        nargs="?",
        help="oci://HOST/REPOSITORY, a folder of packages, or a plugin: a .so, .sos, .spv, .wgsl or .ptx "
        "(default: the cache)",
    )
    add_json(listed)


def _add_show(actions: Commands) -> None:
    show = add_command(actions, "show", "show what is in a package; nothing of it is pulled or run", flags=False)
    show.add_argument("what", help="a package of the cache, by name or digest, or oci://HOST/REPOSITORY:TAG")
    add_json(show)


def _add_mirror(actions: Commands) -> None:
    about = "copy packages with their signatures to a folder, or from anywhere to a registry"
    mirror = add_command(actions, "mirror", about, flags=False)
    mirror.add_argument(
        "source", help="oci://HOST/REPOSITORY:TAG, a repository with all its tags, a folder, or a lock file (*.lock)"
    )
    mirror.add_argument("to", help="a folder, for --mirror; or oci://HOST/REPOSITORY:TAG for one package")
    _add_targets(mirror, "only these targets (default: all)", required=False)
    add_json(mirror)


def _add_gc(actions: Commands) -> None:
    gc = add_command(
        actions, "gc", "take packages, artifacts and programs out of the cache that nobody uses any more", flags=False
    )
    gc.add_argument(
        "--older",
        metavar="30d",
        help="what was not used for so long, in days (d) or hours (h); without it only bytes that belong to no package",
    )
    gc.add_argument("--dry-run", action="store_true", help="only say what would go")
    add_json(gc)


def _add_targets(parser: argparse.ArgumentParser, what: str, *, required: bool) -> None:
    parser.add_argument(
        "--target",
        type=targets,
        action=Joined,
        default=(),
        required=required,
        metavar="TARGET,...",
        help=f"{what}: cpu (this machine's), x86_64, aarch64, riscv64, vulkan, metal, cuda:sm_80, rocm:gfx942",
    )


def add_library(commands: Commands) -> None:
    parser = add_command(
        commands, "library", "make, try and list pattern libraries: Python packages of specs", flags=False
    )
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)

    listed = add_command(actions, "list", "show the libraries that are installed, and what is in them", flags=False)
    listed.add_argument("name", nargs="?", help="only this one, with the names of its patterns and kernels")
    add_json(listed)

    new = add_command(
        actions, "new", "make a package with a library that works: a pattern, a kernel, a test", flags=False
    )
    new.add_argument("name", help="the library's name, as acme_kernels")
    new.add_argument("--folder", metavar="FOLDER", help="where to write it (default: a folder of its name)")
    add_json(new)

    about = "try a library: its text, its code for all targets, each pattern on an example, and its numbers"
    check = add_command(
        actions, "check", about, flags=False, more="\nIt builds and runs the library's code on this machine."
    )
    check.add_argument("library", help="the folder of a project or of specs, or the name of an installed library")
    add_building(check)
    add_json(check)
