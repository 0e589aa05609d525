"""The child process that holds LLVM: `python -P llvm_worker.py < job.json > answer.json`.

LLVM ends the process on some bad input (an intrinsic that the target lacks, for one), so it runs away from the compile.
The job and the answer are JSON objects; see `llvm.py`, which is the only caller. This file must import nothing of
opsplice, so that it starts fast.
"""

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

from llvmlite import binding

# Where a module was compiled from, which is a folder of somebody's.
_SOURCE = re.compile(r"^source_filename = .*$", re.MULTILINE)
_BITCODE = b"BC\xc0\xde"
_CPU_ATTRIBUTES = re.compile(r' ?"(?:target-cpu|target-features|tune-cpu)"(?:="[^"]*")?')
_DEFINITION = re.compile(r"^define .*$", re.MULTILINE)
_PUBLIC_ALIAS = re.compile(r'^@"?([^\s"=]+)"? = (?!.*\b(?:internal|private)\b).*\balias\b', re.MULTILINE)
_TARGET = re.compile(r"^target (?:triple|datalayout) = .*$", re.MULTILINE)
_ALIAS = re.compile(r"^@([\w.]+) = [^\n]*\balias [^\n]*, ptr @([\w.$]+)$", re.MULTILINE)
_INTRINSIC = re.compile(
    r"^(declare ([^@\n]*?) ?@llvm\.(a?cosh?|a?sinh?|a?tanh?|atan2|exp|exp10|exp2|log|log10|log2|pow"
    r"|ceil|floor|nearbyint|rint|round|roundeven|trunc)"
    r"\.((?:v\d+)?f(?:32|64))\(([^)\n]*)\)[^\n]*)$",
    re.MULTILINE,
)
# `alloca [8 x [4 x float]], i64 2`
_VARIABLE = re.compile(r"= alloca ((?:[\[<]\d+ x )*)(half|bfloat|float|double|ptr|i\d+)[\]>]*(?:, i\d+ (\d+))?")
_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": 64}
_ASSEMBLY = re.compile(r'^module asm |\bcall [^\n"]*\basm (?:\w+ )*"[^"]', re.MULTILINE)  # not asm ""
# Code with AVX2 for no CPU in particular, which LLVM orders for one without: a tile of products that has 15 registers
# of numbers then keeps some on the stack, and takes twice as long. Haswell is the oldest CPU that has it.
_FOR_NO_CPU = re.compile(r'^(attributes .*"target-features"="[^"]*\+avx2\b.*"tune-cpu"=")generic', re.MULTILINE)
_CPU_CHOICE = re.compile(r'"(?:target-cpu|target-features)"="[^"]*"')

_BLOCK = binding.ValueKind.basic_block
# Instructions that give a number for any numbers, and functions that do; integer divisions trap.
_COMPUTING = """
    fadd fsub fmul fdiv frem fneg fcmp icmp select phi br switch ret call add sub mul and or xor shl lshr ashr trunc
    zext sext fptrunc fpext fptosi fptoui sitofp uitofp bitcast freeze extractelement insertelement shufflevector
"""
_MATH = re.compile(
    r"llvm\.(fabs|sqrt|fma|fmuladd|copysign|floor|ceil|trunc|rint|nearbyint|round|roundeven|minnum|maxnum|minimum|maximum"
    r"|exp|exp2|exp10|log|log2|log10|pow|powi|sin|cos|tan|tanh|sinh|cosh|asin|acos|atan|atan2|is\.fpclass|abs|smin|smax"
    r"|umin|umax|ctlz|cttz|ctpop|fshl|fshr|fptosi\.sat|fptoui\.sat|canonicalize|ldexp)\..*"
    r"|(fabs|sqrt|fma|copysign|floor|ceil|trunc|rint|nearbyint|round|roundeven|fmin|fmax|exp|exp2|expm1|log|log2|log10"
    r"|log1p|pow|sin|cos|tan|tanh|sinh|cosh|asin|acos|atan|atan2|erf|erfc|cbrt|fmod)f?"
)


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Does one job.

    `compile`: IR text to an object, assembly or bitcode. `generate`: a compiler's bitcode to an object.
    `assemble`: IR text to bitcode as it is. `import`: looks at bitcode.
    `library`: makes one module of several. `link`: puts of it into a module what that calls. `part`: leaves some of it.
    `features`: lists those of a CPU, on stderr.
    """
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    jobs = {
        "compile": _compile,
        "generate": _generate,
        "assemble": _assemble,
        "import": _import,
        "features": _features,
        "library": _library,
        "link": _link,
        "part": _part,
    }
    return jobs[job["do"]](job)


def _compile(job: dict[str, Any]) -> dict[str, Any]:
    try:
        # A module of clang's names the CPU in each function; the target's choice is the one that counts.
        module = _read(job["source"])
    except RuntimeError as error:
        return {"error": str(error)}
    made_for = module.triple
    _write(module, job, optimise=True)
    return _found(module, made_for)


def _generate(job: dict[str, Any]) -> dict[str, Any]:
    try:
        text = str(_read(job["source"]))
    except RuntimeError as error:
        return {"unreadable": str(error)}
    if _ASSEMBLY.search(text):
        return {"unreadable": "it has assembly"}  # which llvmlite reads for this machine's CPUs at most
    _write(binding.parse_assembly(_FOR_NO_CPU.sub(r"\1haswell", text)), job)
    return {"definitions": "\n".join(_DEFINITION.findall(text))}


def _write(module: Any, job: dict[str, Any], *, optimise: bool = False) -> None:
    """Writes a module in the form that the job asks for."""
    machine = binding.Target.from_triple(job["triple"]).create_target_machine(
        cpu=job["cpu"], features=job["features"], opt=3, reloc="pic", codemodel="small", abiname=job["abi"]
    )
    module.triple = job["triple"]
    module.data_layout = str(machine.target_data)
    if optimise:
        if job["form"] == "object":
            # An object finds no memset or memcpy at the link, so loops have to stay loops.
            binding.set_option("opsplice", "-disable-loop-idiom-all")
        builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=3))
        builder.getModulePassManager().run(module, builder)
    emit = {
        "object": lambda: machine.emit_object(module),
        "assembly": lambda: machine.emit_assembly(module).encode("utf-8", "surrogateescape"),
        "bitcode": module.as_bitcode,
    }
    Path(job["output"]).write_bytes(emit[job["form"]]())


def _assemble(job: dict[str, Any]) -> dict[str, Any]:
    try:
        module = _read(job["source"])
    except RuntimeError as error:
        return {"error": str(error)}
    Path(job["output"]).write_bytes(module.as_bitcode())
    return _found(module, module.triple)


def _read(source: str) -> Any:
    """IR text, or bitcode, as a module. Raises RuntimeError if it is wrong."""
    data = Path(source).read_bytes()
    if data.startswith(_BITCODE):
        module = binding.parse_bitcode(data)
    else:
        module = binding.parse_assembly(_without_cpu(data.decode("utf-8", "replace")))
    module.verify()
    return module


def _import(job: dict[str, Any]) -> dict[str, Any]:
    data = Path(job["source"]).read_bytes()
    try:
        module = binding.parse_bitcode(data)
        module.verify()
    except RuntimeError as error:
        return {"unreadable": str(error)}
    if job["output"]:
        neutral = binding.parse_assembly(_SOURCE.sub("", _without_cpu(str(module))))
        Path(job["output"]).write_bytes(neutral.as_bitcode())
    return _found(module, module.triple)


def _library(job: dict[str, Any]) -> dict[str, Any]:
    module = binding.parse_assembly("")
    for source in job["sources"]:
        text = _TARGET.sub("", _SOURCE.sub("", _without_cpu(Path(source).read_text(encoding="utf-8"))))
        aliases = [each for each in _ALIAS.findall(text) if each[0] in job["names"]]
        copies = [_copied(text, function, alias) for alias, function in aliases]
        module.link_in(binding.parse_assembly("\n".join([_ALIAS.sub("", text), *copies])))
    # An intrinsic of the library's own would be a call that nothing answers.
    module = binding.parse_assembly(_called_by_name(str(module), job["names"]))
    _keep(module, job["names"])
    Path(job["output"]).write_bytes(module.as_bitcode())
    return {}


def _copied(text: str, function: str, name: str) -> str:
    """A function of IR text under another name, so that either can be dropped."""
    found = re.search(rf"^define [^\n]*@{re.escape(function)}\(.*?^}}$", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{name} stands for {function}, which is not defined"
    copy = re.sub(rf'(?<=@){re.escape(function)}(?![\w.$"])', name, found.group())
    return re.sub(r"^define (?:internal|private) ", "define ", copy)


def _link(job: dict[str, Any]) -> dict[str, Any]:
    text = str(binding.parse_bitcode(Path(job["source"]).read_bytes()))
    module = binding.parse_assembly(_called_by_name(text, job["called"]))
    own = [value.name for value in (*module.functions, *module.global_variables) if not value.is_declaration]
    library = binding.parse_bitcode(Path(job["library"]).read_bytes())
    made_for = module.triple
    library.triple, library.data_layout = module.triple, module.data_layout
    module.link_in(library)
    _keep(module, own)
    Path(job["output"]).write_bytes(module.as_bitcode())
    return _found(module, made_for)


def _part(job: dict[str, Any]) -> dict[str, Any]:
    module = binding.parse_bitcode(Path(job["library"]).read_bytes())
    _keep(module, job["names"])
    for function in module.functions:
        if function.name in job["names"]:
            function.linkage, function.visibility = "weak_any", "hidden"
    Path(job["output"]).write_bytes(module.as_bitcode())
    return {}


def _called_by_name(text: str, names: list[str]) -> str:
    """IR text whose intrinsics are calls of the functions that they stand for; of vectors, a call for each element."""
    made: list[str] = []
    for whole, result, name, kind, given, function in _intrinsics(text):
        if function not in names:
            continue
        vector, count = kind.startswith("v"), len(given.split(", "))
        new = f"@opsplice.{name}.{kind}" if vector else f"@{function}"
        text = re.sub(rf"@llvm\.{name}\.{re.escape(kind)}(?![\w.])", new, text.replace(whole, ""))
        if vector:
            made.append(_by_elements(new, function, result, count))
        if re.search(rf"^(?:declare|define) [^\n]*@{function}\(", text, re.MULTILINE) is None:
            element = {"f32": "float", "f64": "double"}[kind[-3:]]
            made.append(f"declare {element} @{function}({', '.join([element] * count)})")
    return "\n".join([text, *dict.fromkeys(made)])


def _intrinsics(text: str) -> list[tuple[str, ...]]:
    """The intrinsics of mathematics that IR text declares: the line, the result, name, kind and parameters, and the
    function that each is, for each element of vectors."""
    found = [match.groups() for match in _INTRINSIC.finditer(text)]
    return [(*each, each[2] + ("f" if each[3].endswith("f32") else "")) for each in found]


def _by_elements(name: str, function: str, vector: str, count: int) -> str:
    length, element = int(vector[1:].split(" x ")[0]), vector.split(" x ")[1].rstrip(">")
    lines = [f"define internal {vector} {name}({', '.join(f'{vector} %p{p}' for p in range(count))}) {{"]
    last = "poison"
    for i in range(length):
        lines += [f"  %x{i}_{p} = extractelement {vector} %p{p}, i64 {i}" for p in range(count)]
        given = ", ".join(f"{element} %x{i}_{p}" for p in range(count))
        lines.append(f"  %y{i} = call {element} @{function}({given})")
        lines.append(f"  %r{i} = insertelement {vector} {last}, {element} %y{i}, i64 {i}")
        last = f"%r{i}"
    return "\n".join([*lines, f"  ret {vector} {last}", "}"])


def _keep(module: Any, names: list[str]) -> None:
    """Leave in a module what these functions and variables need, and hide the rest."""
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name not in names:
            value.linkage = "internal"
    machine = binding.Target.from_default_triple().create_target_machine()
    passes = binding.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_strip_dead_prototype_pass()
    passes.run(module, binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=1)))


def _features(job: dict[str, Any]) -> dict[str, Any]:
    binding.Target.from_triple(job["triple"]).create_target_machine(features="+help")
    return {}


def _found(module: Any, made_for: str) -> dict[str, Any]:
    functions = {function.name: function for function in module.functions if not function.is_declaration}
    return {
        "made_for": made_for,
        "symbols": _symbols(module),
        "signatures": {name: str(function.global_value_type) for name, function in functions.items()},
        "harmless": [name for name in functions if _is_harmless(name, functions, ())],
        "mathematics": sorted({function for *_, function in _intrinsics(str(module))}),
        "stack": {name: _stack(function) for name, function in functions.items()},
    }


def _stack(function: Any) -> int:
    """The bytes of a function's variables that are on the stack, as far as their types are arrays of numbers."""
    instructions = (str(each) for block in function.blocks for each in block.instructions if each.opcode == "alloca")
    return sum(map(_size, filter(None, map(_VARIABLE.search, instructions))))


def _size(variable: re.Match[str]) -> int:
    counts, bits, count = re.findall(r"(\d+) x ", variable[1]), _BITS.get(variable[2]), variable[3]
    size = int(variable[2][1:]) if bits is None else bits
    return math.prod(map(int, [*counts, count or 1])) * max(8, size) // 8


def _is_harmless(name: str, functions: dict[str, Any], around: tuple[str, ...]) -> bool:
    """Whether a function only computes: no memory, no loops, nothing that traps, and the same of what it calls."""
    if _MATH.fullmatch(name):
        return True
    if name not in functions or name in around:
        return False
    computing = _COMPUTING.split()
    after: dict[str, list[str]] = {}
    called: dict[str, None] = {}
    for block in functions[name].blocks:
        following = after[_label(block)] = []
        for instruction in block.instructions:
            if instruction.opcode not in computing:
                return False
            operands = list(instruction.operands)
            if instruction.opcode == "call":
                called[operands[-1].name] = None
            elif instruction.opcode in ("br", "switch"):
                following += [_label(operand) for operand in operands if operand.value_kind == _BLOCK]
    return not _has_cycle(after) and all(_is_harmless(each, functions, (*around, name)) for each in called)


def _label(block: Any) -> str:
    """What tells a block from the others of its function: few have names, but the text of each is its own."""
    return str(block)


def _has_cycle(after: dict[str, list[str]]) -> bool:
    """Whether a graph leads back to where it was: taking away what nothing leads to leaves something then."""
    left = dict(after)
    while left:
        reached = {label for following in left.values() for label in following}
        kept = {label: following for label, following in left.items() if label in reached}
        if len(kept) == len(left):
            return True
        left = kept
    return False


def _without_cpu(text: str) -> str:
    """IR text whose functions name no CPU, so that they take the one of the module that they are linked into.

    With a CPU of their own they would neither be inlined into code for another one nor use its instructions. Functions
    for several CPUs in one module (their author chooses between them at run time) keep theirs.
    """
    choices = {tuple(_CPU_CHOICE.findall(line)) for line in text.splitlines()} - {()}
    return text if len(choices) > 1 else _CPU_ATTRIBUTES.sub("", text)


def _symbols(module: Any) -> dict[str, Any]:
    text = str(module)
    found: dict[str, Any] = {"functions": [], "data": [], "local": [], "undefined": []}
    for value, kind in [(f, "functions") for f in module.functions] + [(g, "data") for g in module.global_variables]:
        if value.name.startswith("llvm."):
            continue
        linkage = value.linkage.name
        if value.is_declaration:
            if linkage != "external_weak" and _used(value.name, text):
                found["undefined"].append(value.name)
        elif linkage in ("internal", "private"):
            found["local"].append(value.name)
        else:
            found[kind].append(value.name)
    # llvmlite does not list aliases.
    found["functions"] += _PUBLIC_ALIAS.findall(text)
    found["tls"] = re.search(r"^@.* thread_local", text, re.MULTILINE) is not None
    found["constructors"] = re.search(r"^@llvm\.global_ctors = .* \[[1-9]", text, re.MULTILINE) is not None
    found["ifuncs"] = re.search(r"^@.* ifunc ", text, re.MULTILINE) is not None
    return found


def _used(name: str, text: str) -> bool:
    """Whether a declared name occurs beyond its declaration; unused ones need no definition."""
    return len(re.findall(rf'@"?{re.escape(name)}"?(?![\w.$-])', text)) > 1


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
