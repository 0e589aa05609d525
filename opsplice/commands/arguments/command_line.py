"""The arguments of the command line, and what `--help` says of them."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
from typing import NoReturn

from opsplice import __version__, streams
from opsplice.commands.arguments import registry_arguments
from opsplice.commands.arguments.argument_parts import (
    CPUS,
    EXIT_CODES,
    Commands,
    Joined,
    add_building,
    add_command,
    add_dims,
    add_json,
    grouped,
    names,
    targets,
)

_START = f"""\
A first look:
  opsplice doctor                        what this machine can build and run
  opsplice capture model.mlir            the ops of a model
  opsplice capture model.mlir --at model.mlir:12 -o first.splice
                                         a pattern, a kernel and a rule for one
  opsplice match model.mlir --spec=first.splice
                                         what would be replaced
  opsplice compile model.mlir --spec=first.splice -o model.vmfb

Each command says more with --help, as `opsplice capture --help`.
{EXIT_CODES}
"""
_GROUPS = {
    "look at a model": ("match", "explain"),
    "build and run": ("compile", "run"),
    "write specs": ("capture", "lint", "format", "import", "export"),
    "kernels and libraries": ("kernel", "library"),
    "this machine": ("doctor",),
}
_MODEL = "MLIR text or bytecode, or an .onnx file"
_NEAR_MISSES = """
A near miss is a place in the model where a part of a pattern holds and another
part does not. It is told with what the pattern wants there and what the model
has."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        streams.say(f"{self.format_usage()}{self.prog}: error: {message}")
        raise SystemExit(2)


def not_known(command: str, argument: str) -> str:
    """What is wrong with an argument that a command does not take, and what may be meant."""
    import difflib  # only what ends in an error needs it

    told = f"opsplice {command} takes no {argument}"
    name, _, value = argument.partition("=")
    known = re.findall(r"--[a-z][a-z-]*", _help_of(command))
    nearest = difflib.get_close_matches(name, known, n=1)
    return f"{told}\nhelp: did you mean {nearest[0]}{'=' * bool(value)}{value}?" if nearest else told


def _help_of(command: str) -> str:
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        parser().parse_args([command, "--help"])
    return text.getvalue()


def parser() -> argparse.ArgumentParser:
    """The parser of all commands. It sets `command`, and `takes_flags` for those that take the compiler's flags."""
    parser = _Parser(
        prog="opsplice",
        description="Find computations in MLIR programs by pattern and splice in your own kernels.",
        epilog=_START,
        formatter_class=grouped(_GROUPS),
    )
    parser.add_argument("--version", action="version", version=f"opsplice {__version__}")
    commands: Commands = parser.add_subparsers(title="commands", dest="command", metavar="command", required=True)
    _add_compile(commands)
    _add_run(commands)
    _add_match(commands)
    _add_explain(commands)
    _add_export(commands)
    _add_import(commands)
    _add_capture(commands)
    _add_format(commands)
    _add_lint(commands)
    registry_arguments.add_kernel(commands)
    registry_arguments.add_library(commands)
    _add_doctor(commands)
    return parser


def _add_model(parser: argparse.ArgumentParser, what: str, *, spec_required: bool, may_fail: bool = True) -> None:
    parser.add_argument("model", help=what)
    parser.add_argument(
        "--spec",
        action="append",
        default=[],
        metavar="SPEC",
        required=spec_required,
        help="patterns, kernels and rules: a .splice file, a transform-dialect .mlir file, or an installed library by "
        "its name, acme_kernels or acme_kernels:attention; several apply in order",
    )
    parser.add_argument(
        "--target",
        type=targets,
        action=Joined,
        default=(),
        metavar="TARGET,...",
        help="what the program is to run on: cpu (this machine's), x86_64, aarch64, riscv64, vulkan, cuda, rocm or "
        "metal, a GPU with its chip if you know it, as cuda:sm_80. The program holds code for each that is named, "
        "and runs on the first that it finds. Default: what the --iree-... flags say, or this machine's kind of CPU",
    )
    add_dims(parser)
    registry_arguments.add_package_options(parser)
    if may_fail:
        parser.add_argument("--require-match", action="store_true", help="fail if a rule matches nothing")


def _add_common(parser: argparse.ArgumentParser, verbose: str = "matches that other rules have the place of") -> None:
    shown = f"show {verbose}, and IREE's own messages" if verbose else "show IREE's own messages"
    parser.add_argument("--verbose", action="store_true", help=shown)
    parser.add_argument(
        "--no-isolate", action="store_true", help="work in this process: a crash of IREE or of a kernel then ends it"
    )
    add_json(parser)


def _add_cache(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cache",
        action="store_true",
        help="keep the program, and take it from there if nothing changed (docs/cache.md)",
    )


def _add_no_code(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-code",
        action="store_true",
        help="build and run nothing of the specs: take prebuilt artifacts only (docs/security.md)",
    )


def _add_compile(commands: Commands) -> None:
    about = "compile a model with specs to a program for IREE's runtime, a .vmfb file"
    parser = add_command(commands, "compile", about, flags=True)
    _add_model(parser, _MODEL, spec_required=False)
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the .vmfb to write; - for stdout")
    add_building(parser)
    _add_no_code(parser)
    _add_cache(parser)
    parser.add_argument(
        "--save-kernels",
        metavar="FOLDER",
        help="where to write kernels that are `as provided`, so not in the program (default: the output's name with "
        "the ending .kernels)",
    )
    _add_common(parser)


def _add_run(commands: Commands) -> None:
    parser = add_command(commands, "run", "run a .vmfb, or compile a model with specs and run it", flags=True)
    _add_model(parser, f"{_MODEL}; or a .vmfb to run as it is", spec_required=False)
    parser.add_argument("--function", metavar="NAME", help="the function to call; not needed if there is only one")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="VALUE",
        help="a value, once for each input in their order: 8xf32=2 (2 in all places), 2x2xi32=1,2,3,4, f32=1.5, "
        "@x.npy, 4xf32=@raw.bin",
    )
    parser.add_argument(
        "--provider",
        action="append",
        default=[],
        metavar="FOLDER",
        help="a folder of kernels that are not in the program, as `compile` writes it, or a .vmfb of them; the first "
        "that has a kernel wins",
    )
    parser.add_argument(
        "--command",
        dest="command_files",
        action="append",
        default=[],
        metavar="MODULE=FILE",
        help="the Python file with the functions of a module that the program calls on the host (`as command`); FILE "
        "alone if the module is called like it",
    )
    parser.add_argument(
        "--device",
        default="local-task",
        metavar="URI",
        help="where to run: local-task (the CPU, default), local-sync (on one thread), vulkan, cuda, hip or metal",
    )
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE",
        help="a file with functions that the program imports (`as plugin`): .so or .sos for a CPU, .spv, .wgsl, .ptx "
        "or .ll for GPUs; the last file with a function wins",
    )
    parser.add_argument(
        "--parameters",
        action="append",
        default=[],
        metavar="SCOPE=FILE",
        help="an archive of the program's weights, .irpa, .gguf or .safetensors; FILE alone if their scope is `model` "
        "or there is none; by default the .irpa beside the program",
    )
    parser.add_argument(
        "--output", metavar="@FILE", help="where to save the results: @out.npy, or @folder/ for a file each"
    )
    add_building(parser)
    _add_no_code(parser)
    _add_cache(parser)
    _add_common(parser)


def _add_match(commands: Commands) -> None:
    about = "show what specs would replace; nothing is changed or built"
    parser = add_command(
        commands,
        "match",
        about,
        flags=True,
        more=f"""
A match is replaced, kept as the compiler's own code, or lost to another rule
that has its place. For a rule without a match the nearest near miss is shown.
{_NEAR_MISSES}""",
    )
    _add_model(parser, _MODEL, spec_required=True)
    _add_common(parser)


def _add_explain(commands: Commands) -> None:
    about = "show why patterns match, and where and why they do not"
    parser = add_command(
        commands,
        "explain",
        about,
        flags=True,
        more=f"""
{_NEAR_MISSES}
docs/explain.md says how to read it.""",
    )
    _add_model(parser, _MODEL, spec_required=True, may_fail=False)
    parser.add_argument("--pattern", metavar="NAME", help="only this pattern (default: those that rules use)")
    parser.add_argument(
        "--at",
        metavar="PLACE",
        help="only at a line, model.mlir:12, at lines, model.mlir:10-25, or at an op: linalg.generic#3 is the third "
        "of the program",
    )
    _add_common(parser, "all patterns, matches and near misses")


def _add_export(commands: Commands) -> None:
    about = "write a .splice spec as a transform-dialect spec, for IREE's own iree-compile"
    parser = add_command(commands, "export", about, flags=True)
    parser.add_argument("spec", help="a .splice file, or an installed library")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the .mlir to write; - for stdout")
    parser.add_argument(
        "--partial", action="store_true", help="leave out what a transform-dialect spec cannot say, and list it"
    )
    parser.add_argument(
        "--objects",
        choices=("path", "copy", "bytes"),
        default="path",
        help="how the spec has its kernels: by their path in the cache (default), as a copy beside it, or as bytes in "
        "it (bitcode only)",
    )
    parser.add_argument(
        "--target",
        type=targets,
        action=Joined,
        default=(),
        metavar="TARGET,...",
        help=f"the CPUs that kernels are built for: {CPUS}",
    )
    add_building(parser)
    registry_arguments.add_package_options(parser)
    _add_no_code(parser)
    add_json(parser)


def _add_import(commands: Commands) -> None:
    about = "write a transform-dialect spec as a .splice file"
    parser = add_command(commands, "import", about, flags=False)
    parser.add_argument("spec", help="a transform-dialect .mlir file")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the .splice to write; - for stdout")
    parser.add_argument("--partial", action="store_true", help="leave out what a .splice file cannot say, and list it")
    add_json(parser)


def _add_capture(commands: Commands) -> None:
    about = "write a pattern, a kernel and a rule from ops of a model, or without --at list the ops"
    parser = add_command(commands, "capture", about, flags=True)
    parser.add_argument("model", help=_MODEL)
    add_dims(parser)
    parser.add_argument(
        "--at",
        action="append",
        default=[],
        metavar="PLACE",
        help="what to take: the op of a line, model.mlir:12, or of a name, linalg.generic#3, with what leads up to it; "
        "or just the ops of lines, model.mlir:10-25. Several times for several results",
    )
    parser.add_argument(
        "--to", action="append", default=[], metavar="PLACE", help="take all ops from this place down to --at"
    )
    parser.add_argument(
        "--inputs",
        action="extend",
        type=names,
        default=[],
        metavar="VALUE,...",
        help="take all ops from these values down to --at: places, or names such as %%5 from the list of ops",
    )
    parser.add_argument("--name", help="the pattern's name (default: that of the file of -o)")
    parser.add_argument(
        "--phase",
        choices=("input", "preprocessing"),
        default="preprocessing",
        help="the phase of IREE's compiler at which the program is read (default: preprocessing)",
    )
    parser.add_argument(
        "--concrete", action="store_true", help="write sizes as numbers: the pattern holds for these only"
    )
    parser.add_argument(
        "--element-variable", action="store_true", help="write a type variable for the element type: f32 or f64"
    )
    parser.add_argument(
        "--packs",
        action="store_true",
        help="write ...m for leading dims, such as batches: the pattern holds for any number of them",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the .splice to write, and beside it the kernel's .c unless there is one (default: print it)",
    )
    _add_common(parser, "")


def _add_format(commands: Commands) -> None:
    parser = add_command(commands, "format", "format .splice files in place", flags=False, aliases=("fmt",))
    parser.add_argument("files", nargs="+", metavar="file", help="a .splice file; - reads stdin and writes stdout")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a file would change")
    add_json(parser)


def _add_lint(commands: Commands) -> None:
    about = "warn of what is likely a mistake in .splice files"
    parser = add_command(
        commands, "lint", about, flags=False, more="\ndocs/lint.md lists the warnings with their codes."
    )
    what = "a .splice file, or an installed library; what it imports is checked too"
    parser.add_argument("files", nargs="+", metavar="file", help=what)
    for flag, about in (("--deny", "exit with 1 for these warnings; all: for any"), ("--allow", "hide these warnings")):
        parser.add_argument(flag, action="extend", type=names, default=[], metavar="CODE,...", help=about)
    registry_arguments.add_package_options(parser)
    add_json(parser)


def _add_doctor(commands: Commands) -> None:
    about = "show what this machine can build and run, and how to get what is missing"
    parser = add_command(commands, "doctor", about, flags=False)
    add_json(parser)
