"""The child process that holds LLVM: `python -P llvm_worker.py < job.json > answer.json`.

LLVM ends the process on some bad input (an intrinsic that the target lacks, for one), so it runs away from the compile.
The job and the answer are JSON objects; see `llvm.py`, which is the only caller. This file must import nothing of
opsplice, so that it starts fast.
"""

import json
import re
import sys
from typing import Any

from llvmlite import binding

_CPU_ATTRIBUTES = re.compile(r' ?"(?:target-cpu|target-features|tune-cpu)"(?:="[^"]*")?')
_PUBLIC_ALIAS = re.compile(r'^@"?([^\s"=]+)"? = (?!.*\b(?:internal|private)\b).*\balias\b', re.MULTILINE)
_CPU_CHOICE = re.compile(r'"(?:target-cpu|target-features)"="[^"]*"')


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Does one job.

    `compile`: IR text to an object, assembly or bitcode. `assemble`: to bitcode as it is. `import`: looks at bitcode.
    """
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    if job["do"] == "compile":
        return _compile(job)
    return _assemble(job) if job["do"] == "assemble" else _import(job)


def _compile(job: dict[str, Any]) -> dict[str, Any]:
    try:
        # A module of clang's names the CPU in each function; the target's choice is the one that counts.
        module = _read(job["source"])
    except RuntimeError as error:
        return {"error": str(error)}
    made_for = module.triple
    if job["form"] == "object":
        # An object finds no memset or memcpy at the link, so loops have to stay loops.
        binding.set_option("opsplice", "-disable-loop-idiom-all")
    machine = binding.Target.from_triple(job["triple"]).create_target_machine(
        cpu=job["cpu"], features=job["features"], opt=3, reloc="pic", codemodel="small", abiname=job["abi"]
    )
    module.triple = job["triple"]
    module.data_layout = str(machine.target_data)
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    emit = {
        "object": lambda: machine.emit_object(module),
        "assembly": lambda: machine.emit_assembly(module).encode("utf-8", "surrogateescape"),
        "bitcode": module.as_bitcode,
    }
    with open(job["output"], "wb") as file:
        file.write(emit[job["form"]]())
    return {"made_for": made_for, "symbols": _symbols(module)}


def _assemble(job: dict[str, Any]) -> dict[str, Any]:
    try:
        module = _read(job["source"])
    except RuntimeError as error:
        return {"error": str(error)}
    with open(job["output"], "wb") as file:
        file.write(module.as_bitcode())
    return {"made_for": module.triple, "symbols": _symbols(module), "signatures": _signatures(module)}


def _read(source: str) -> Any:
    """IR text as a module. Raises RuntimeError if it is wrong."""
    with open(source, encoding="utf-8", errors="replace") as file:
        module = binding.parse_assembly(_without_cpu(file.read()))
    module.verify()
    return module


def _import(job: dict[str, Any]) -> dict[str, Any]:
    with open(job["source"], "rb") as file:
        data = file.read()
    try:
        module = binding.parse_bitcode(data)
        module.verify()
    except RuntimeError as error:
        return {"unreadable": str(error)}
    if job["output"]:
        neutral = binding.parse_assembly(_without_cpu(str(module)))
        with open(job["output"], "wb") as file:
            file.write(neutral.as_bitcode())
    return {"made_for": module.triple, "symbols": _symbols(module), "signatures": _signatures(module)}


def _signatures(module: Any) -> dict[str, str]:
    return {function.name: str(function.global_value_type) for function in module.functions}


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
    return found


def _used(name: str, text: str) -> bool:
    """Whether a declared name occurs beyond its declaration; unused ones need no definition."""
    return len(re.findall(rf'@"?{re.escape(name)}"?(?![\w.$-])', text)) > 1


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
