"""The command line: arguments in, a command's module imported and run, errors shown, exit codes.

    0  done        1  an error, or a check that failed        2  wrong usage        130  interrupted

Only the command that runs is imported, so that `opsplice --help` is quick and the commands that compile can fork before
anything heavy is loaded.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

from opsplice import __version__
from opsplice.errors import OpspliceError

_EPILOG = """\
Any --iree-... or --mlir-... flag goes to IREE's compiler, as with iree-compile (write --flag=value).
Exit codes: 0 done, 1 an error, 2 wrong usage, 130 interrupted.
"""

# Commands whose names are words of Python.
_MODULES = {"import": "import_spec"}
_TIME_LIMIT = "OPSPLICE_BUILD_TIMEOUT"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    arguments, flags = _split(list(sys.argv[1:] if argv is None else argv))
    options = _parser().parse_args(arguments)
    options.flags = flags
    if flags and not options.takes_flags:
        _usage_error(f"opsplice {options.command} takes no compiler flags: {flags[0]}")
    try:
        with _time_limit(getattr(options, "build_timeout", None)):
            return import_module(f"opsplice.commands.{_MODULES.get(options.command, options.command)}").run(options)
    except OpspliceError as error:
        return _fail(error, options)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output has gone (`opsplice ... | head`): say nothing more to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


@contextmanager
def _time_limit(seconds: str | None) -> Iterator[None]:
    """Have compilers of kernels take no longer than an option says, also in child processes."""
    before = os.environ.get(_TIME_LIMIT)
    if seconds is not None:
        os.environ[_TIME_LIMIT] = seconds
    try:
        yield
    finally:
        if seconds is not None:
            os.environ.pop(_TIME_LIMIT)
            os.environ.update({} if before is None else {_TIME_LIMIT: before})


def _split(argv: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """Our own arguments, and the flags for IREE's compiler."""
    ours = [a for a in argv if not a.startswith(("--iree-", "--mlir-"))]
    return ours, tuple(a for a in argv if a.startswith(("--iree-", "--mlir-")))


def _fail(error: OpspliceError, options: argparse.Namespace) -> int:
    if getattr(options, "json", False):
        import json

        print(json.dumps({"error": error.message, "details": error.details, "hint": error.hint}, indent=2))
        return 1
    from opsplice.render import error_text

    print(error_text(error), file=sys.stderr)
    return 1


def _usage_error(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(2)


# ---- arguments ---------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="opsplice",
        description="Find computations in MLIR programs by pattern and splice in your own kernels.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"opsplice {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    _add_compile(commands)
    _add_run(commands)
    _add_match(commands)
    _add_explain(commands)
    _add_export(commands)
    _add_import(commands)
    _add_capture(commands)
    _add_fmt(commands)
    _add_lint(commands)
    _add_kernel(commands)
    _add_doctor(commands)
    return parser


def _command(commands: argparse._SubParsersAction, name: str, about: str, *, flags: bool) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog=_EPILOG if flags else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(takes_flags=flags)
    return parser


def _add_model(parser: argparse.ArgumentParser, what: str, *, spec_required: bool, may_fail: bool = True) -> None:
    parser.add_argument("model", help=what)
    parser.add_argument(
        "--spec",
        action="append",
        default=[],
        metavar="FILE",
        required=spec_required,
        help="a .splice file or a transform-dialect .mlir file; may be given several times",
    )
    parser.add_argument(
        "--target",
        type=_targets,
        action=_Joined,
        default=(),
        metavar="TARGET,...",
        help="what to hold code for in one program: CPU architectures (cpu, x86_64, aarch64, riscv64), vulkan, cuda, "
        "rocm, metal, maybe with a chip (vulkan:llvmpipe, cuda:sm_80)",
    )
    if may_fail:
        parser.add_argument("--require-match", action="store_true", help="a rule that matches nothing is an error")


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--verbose", action="store_true", help="show all that IREE says, and every match left alone")
    parser.add_argument("--json", action="store_true", help="print one JSON object to stdout")


def _add_building(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--build-timeout", metavar="SECONDS", help="the longest that a compiler of a kernel may take; default: 600"
    )


def _add_no_code(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-code",
        action="store_true",
        help="build and run nothing of the specs: take prebuilt artifacts only (docs/security.md)",
    )


def _add_compile(commands: argparse._SubParsersAction) -> None:
    parser = _command(commands, "compile", "compile a model with specs to a .vmfb", flags=True)
    _add_model(parser, "MLIR text or bytecode", spec_required=False)
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the .vmfb to write; - for stdout")
    parser.add_argument("--no-isolate", action="store_true", help="compile in this process: a crash ends it")
    _add_building(parser)
    _add_no_code(parser)
    parser.add_argument(
        "--provider",
        metavar="DIR",
        help="where to write kernels that are not in the program; default: like the output, ending in .kernels",
    )
    _add_common(parser)


def _add_run(commands: argparse._SubParsersAction) -> None:
    parser = _command(commands, "run", "run a .vmfb, or compile a model with specs and run it", flags=True)
    _add_model(parser, "MLIR, or a .vmfb to run as it is", spec_required=False)
    parser.add_argument("--function", metavar="NAME", help="the function to call; may be left out if there is one")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="VALUE",
        help="8xf32=2, 2x2xi32=1,2,3,4, f32=1.5, @x.npy, 4xf32=@raw.bin; once for each input",
    )
    parser.add_argument(
        "--provider",
        action="append",
        default=[],
        metavar="DIR",
        help="a folder of kernels that are not in the program, or a .vmfb of them; the first folder that has one wins",
    )
    parser.add_argument(
        "--command",
        dest="command_files",
        action="append",
        default=[],
        metavar="MODULE=FILE",
        help="a Python file of what the program calls on the host; the module may be left out if it is the file's name",
    )
    parser.add_argument("--device", default="local-task", metavar="URI", help="default: local-task")
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE",
        help="a file with functions that the program imports, .so or .sos for a CPU, .spv, .wgsl, .ptx or .ll for "
        "others; the last one that has a function is taken",
    )
    parser.add_argument(
        "--parameters",
        action="append",
        default=[],
        metavar="SCOPE=FILE",
        help="an archive of parameters, .irpa, .gguf or .safetensors; the scope may be left out where it is empty",
    )
    parser.add_argument("--output", metavar="@FILE", help="save the results: @out.npy, or @folder/ for one file each")
    parser.add_argument("--no-isolate", action="store_true", help="compile in this process: a crash ends it")
    _add_building(parser)
    _add_no_code(parser)
    _add_common(parser)


def _add_match(commands: argparse._SubParsersAction) -> None:
    parser = _command(commands, "match", "show what specs would replace; nothing is changed or built", flags=True)
    _add_model(parser, "MLIR text or bytecode", spec_required=True)
    parser.add_argument("--no-isolate", action="store_true", help="look in this process: a crash of IREE ends it")
    _add_common(parser)


def _add_explain(commands: argparse._SubParsersAction) -> None:
    parser = _command(commands, "explain", "show why patterns match, and where and why they do not", flags=True)
    _add_model(parser, "MLIR text or bytecode", spec_required=True, may_fail=False)
    parser.add_argument("--pattern", metavar="NAME", help="only this one; without it, those that rules use")
    parser.add_argument("--at", metavar="PLACE", help="only at a line, model.mlir:12, or an op, linalg.generic#3")
    parser.add_argument("--no-isolate", action="store_true", help="look in this process: a crash of IREE ends it")
    _add_common(parser)


def _add_export(commands: argparse._SubParsersAction) -> None:
    about = "write a spec as a transform-dialect spec for IREE's own iree-compile"
    parser = _command(commands, "export", about, flags=True)
    parser.add_argument("spec", help="a .splice file")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the .mlir to write; - for stdout")
    parser.add_argument(
        "--partial", action="store_true", help="leave out what has no counterpart, and say so, instead of failing"
    )
    parser.add_argument(
        "--objects",
        choices=("path", "copy", "bytes"),
        default="path",
        help="how kernels go along: by path, as copies beside the file, or as bytes in it (bitcode only)",
    )
    parser.add_argument(
        "--target",
        type=_targets,
        action=_Joined,
        default=(),
        metavar="ARCH,...",
        help="CPU architectures, as for compile",
    )
    _add_building(parser)
    _add_no_code(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object to stdout")


def _add_import(commands: argparse._SubParsersAction) -> None:
    about = "write a transform-dialect spec as a .splice file"
    parser = _command(commands, "import", about, flags=False)
    parser.add_argument("spec", help="a transform-dialect .mlir file")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the .splice to write; - for stdout")
    parser.add_argument("--partial", action="store_true", help="leave out what cannot be read, and say so")
    parser.add_argument("--json", action="store_true", help="print one JSON object to stdout")


def _add_capture(commands: argparse._SubParsersAction) -> None:
    about = "write a pattern, a kernel and a rule from ops of a model; without --at, list the ops"
    parser = _command(commands, "capture", about, flags=True)
    parser.add_argument("model", help="MLIR text or bytecode")
    parser.add_argument(
        "--at",
        action="append",
        default=[],
        metavar="PLACE",
        help="what it makes: file:line or linalg.generic#3, with what leads up to it, or the ops of file:first-last; "
        "several times for several results",
    )
    parser.add_argument(
        "--to", action="append", default=[], metavar="PLACE", help="where it starts: take all between this and --at"
    )
    parser.add_argument(
        "--inputs",
        action="extend",
        type=_list,
        default=[],
        metavar="VALUE,...",
        help="where it stops: places, or names such as %%5 that the list of ops shows",
    )
    parser.add_argument("--name", help="the pattern's name; default: after the file of -o")
    parser.add_argument(
        "--phase",
        choices=("input", "preprocessing"),
        default="preprocessing",
        help="where the program is read (default: preprocessing)",
    )
    parser.add_argument("--concrete", action="store_true", help="write sizes as they are, not as names")
    parser.add_argument(
        "--element-variable", action="store_true", help="write a type variable T for the results' element type"
    )
    parser.add_argument(
        "--packs",
        action="store_true",
        help="write leading dims that are only carried along as ...m",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the .splice to write, with the kernel in C beside it unless it is there"
    )
    parser.add_argument("--no-isolate", action="store_true", help="read in this process: a crash of IREE ends it")
    _add_common(parser)


def _add_fmt(commands: argparse._SubParsersAction) -> None:
    parser = _command(commands, "fmt", "format .splice files in place", flags=False)
    parser.add_argument("files", nargs="+", metavar="file", help="a .splice file; - reads stdin and writes stdout")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a file would change")
    parser.add_argument("--json", action="store_true", help="print one JSON object to stdout")


def _add_lint(commands: argparse._SubParsersAction) -> None:
    parser = _command(commands, "lint", "warn of what cannot be meant in .splice files", flags=False)
    parser.add_argument("files", nargs="+", metavar="file", help="a .splice file; what it imports is looked into")
    for flag, about in (("--deny", "warnings that are errors; all for every one"), ("--allow", "warnings to hide")):
        parser.add_argument(flag, action="extend", type=_list, default=[], metavar="CODE,...", help=about)
    parser.add_argument("--json", action="store_true", help="print one JSON object to stdout")


def _add_kernel(commands: argparse._SubParsersAction) -> None:
    parser = _command(commands, "kernel", "build and look into what programs get at run time", flags=True)
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    json_help = "print one JSON object to stdout"

    about = "build a plugin of the kernels of a spec that are `as plugin`"
    plugin = _command(actions, "plugin", about, flags=False)
    plugin.add_argument("spec", nargs="?", help="a .splice file; without one the plugin has no functions")
    plugin.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help=".so for this system, .sos for any, as embedded ELF; .spv: functions for Vulkan",
    )
    plugin.add_argument("--kernel", action="append", default=[], metavar="NAME", help="only this; several times")
    plugin.add_argument(
        "--arch",
        type=_targets,
        action=_Joined,
        default=(),
        metavar="ARCH,...",
        help="default: this machine's; several go into one .sos",
    )
    plugin.add_argument(
        "--features", default="", metavar="NAME,...", help="what the CPU has, as avx2,fma, or host; for `when` clauses"
    )
    _add_building(plugin)
    plugin.add_argument("--json", action="store_true", help=json_help)

    fat = _command(actions, "fat", "join embedded plugins of several architectures in one file", flags=False)
    fat.add_argument("files", nargs="+", metavar="file", help="an embedded plugin, or several joined")
    fat.add_argument("-o", "--output", required=True, metavar="FILE", help="the .sos to write")
    fat.add_argument("--json", action="store_true", help=json_help)

    about = "make a module for any host of IREE from folders of kernels that are `as provided`"
    provider = _command(actions, "provider", about, flags=True)
    provider.add_argument("folders", nargs="+", metavar="folder", help="as `opsplice compile` writes them")
    provider.add_argument("-o", "--output", required=True, metavar="FILE", help="the .vmfb to write")
    provider.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE",
        help="a .spv, .wgsl, .ptx or .ll with functions that the kernels import; the last one that has one is taken",
    )
    provider.add_argument("--json", action="store_true", help=json_help)

    listed = _command(actions, "list", "show what a plugin is for and what it has", flags=False)
    listed.add_argument("file", help="a .so or .sos; or functions on elements, .spv, .wgsl or .ptx")
    listed.add_argument("--json", action="store_true", help=json_help)


def _add_doctor(commands: argparse._SubParsersAction) -> None:
    about = "show what this machine can build and run, and how to get the rest"
    parser = _command(commands, "doctor", about, flags=False)
    parser.add_argument("--json", action="store_true", help="print one JSON object to stdout")


class _Joined(argparse.Action):
    """An option with a list, which may be given several times."""

    def __call__(self, _parser: object, namespace: argparse.Namespace, values: Any, _option: str | None = None) -> None:
        setattr(namespace, self.dest, (*getattr(namespace, self.dest), *values))


def _targets(text: str) -> tuple[str, ...]:
    names = _list(text)
    if not names or len(names) < len(text.split(",")):
        raise argparse.ArgumentTypeError(f"'{text}' lacks a name: write names with commas between, x86_64,aarch64")
    return names


def _list(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))


Run = Callable[[argparse.Namespace], int]
