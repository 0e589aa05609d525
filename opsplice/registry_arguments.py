"""The arguments of `opsplice kernel`: plugins, providers, and packages of kernels with their registries."""

from __future__ import annotations

import argparse

from opsplice.argument_parts import Joined, add_building, add_command, add_json, targets


def add_kernel(commands: argparse._SubParsersAction) -> None:
    parser = add_command(commands, "kernel", "build and inspect kernels that programs load at run time", flags=True)
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)

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
        "--arch",
        type=targets,
        action=Joined,
        default=(),
        metavar="ARCH,...",
        help="the CPUs to build for (default: this machine's); several go into one .sos",
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
        help="a .spv, .wgsl, .ptx or .ll with functions that the kernels import; the last one that has one is taken",
    )
    add_json(provider)

    listed = add_command(actions, "list", "show the architectures and functions of a plugin", flags=False)
    listed.add_argument("file", help="a .so, .sos, .spv, .wgsl or .ptx")
    add_json(listed)


def add_library(commands: argparse._SubParsersAction) -> None:
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
    new.add_argument("--dir", metavar="FOLDER", help="where to write it (default: a folder of its name)")
    add_json(new)

    about = "try a library: its text, its code for all targets, each pattern on an example, and its numbers"
    check = add_command(
        actions, "check", about, flags=False, more="\nIt builds and runs the library's code on this machine."
    )
    check.add_argument("library", help="the folder of a project or of specs, or the name of an installed library")
    add_building(check)
    add_json(check)
