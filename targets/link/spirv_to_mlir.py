"""Functions of a SPIR-V module, written as ops of MLIR's spirv dialect.

    %10 = OpFNegate %float %5                   =>      %10 = "spirv.FNegate"(%5) : (f32) -> f32
    %11 = OpExtInst %float %1 Exp %10                   %11 = "spirv.GL.Exp"(%10) : (f32) -> f32

Format: the SPIR-V specification 1.6, section 3.32, and the instructions of GLSL.std.450; the dialect names its ops
after them (https://mlir.llvm.org/docs/Dialects/SPIR-V). This is for what a compiler makes of plain functions of scalars
and vectors: arithmetic, comparisons, conversions, variables, calls and choices. Loops and everything that needs memory
are refused. It must not know what the functions are for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from opsplice.errors import OpspliceError
from opsplice.targets.formats.spirv import spirv_reader
from opsplice.targets.formats.spirv.spirv_reader import IGNORED, Declarations, Instruction, Op

# Instructions with a result type, a result and operands that are all values, which say all that there is to say.
_PLAIN = {
    109: "ConvertFToU", 110: "ConvertFToS", 111: "ConvertSToF", 112: "ConvertUToF", 113: "UConvert", 114: "SConvert",
    115: "FConvert", 124: "Bitcast", 126: "SNegate", 127: "FNegate", 128: "IAdd", 129: "FAdd", 130: "ISub", 131: "FSub",
    132: "IMul", 133: "FMul", 134: "UDiv", 135: "SDiv", 136: "FDiv", 137: "UMod", 138: "SRem", 139: "SMod", 140: "FRem",
    141: "FMod", 148: "Dot", 156: "IsNan", 157: "IsInf", 164: "LogicalEqual", 165: "LogicalNotEqual", 166: "LogicalOr",
    167: "LogicalAnd", 168: "LogicalNot", 169: "Select", 170: "IEqual", 171: "INotEqual", 172: "UGreaterThan",
    173: "SGreaterThan", 174: "UGreaterThanEqual", 175: "SGreaterThanEqual", 176: "ULessThan", 177: "SLessThan",
    178: "ULessThanEqual", 179: "SLessThanEqual", 180: "FOrdEqual", 181: "FUnordEqual", 182: "FOrdNotEqual",
    183: "FUnordNotEqual", 184: "FOrdLessThan", 185: "FUnordLessThan", 186: "FOrdGreaterThan", 187: "FUnordGreaterThan",
    188: "FOrdLessThanEqual", 189: "FUnordLessThanEqual", 190: "FOrdGreaterThanEqual", 191: "FUnordGreaterThanEqual",
    194: "ShiftRightLogical", 195: "ShiftRightArithmetic", 196: "ShiftLeftLogical", 197: "BitwiseOr", 198: "BitwiseXor",
    199: "BitwiseAnd", 200: "Not", 80: "CompositeConstruct",
}  # fmt: skip
_GLSL = {
    1: "Round", 2: "RoundEven", 4: "FAbs", 5: "SAbs", 6: "FSign", 7: "SSign", 8: "Floor", 9: "Ceil", 10: "Fract",
    13: "Sin", 14: "Cos", 15: "Tan", 16: "Asin", 17: "Acos", 18: "Atan", 19: "Sinh", 20: "Cosh", 21: "Tanh",
    22: "Asinh", 23: "Acosh", 24: "Atanh", 26: "Pow", 27: "Exp", 28: "Log", 29: "Exp2", 30: "Log2", 31: "Sqrt",
    32: "InverseSqrt", 37: "FMin", 38: "UMin", 39: "SMin", 40: "FMax", 41: "UMax", 42: "SMax", 43: "FClamp",
    44: "UClamp", 45: "SClamp", 46: "FMix", 50: "Fma",
}  # fmt: skip
_WHAT = {246: "a loop", 251: "a switch", 65: "an access to a part of a variable", 245: "a phi"}
_FUNCTION_STORAGE = 7
_EXT_INST, _CALL, _PARAMETER, _LOAD, _STORE = 12, 57, 55, 61, 62
_LABEL, _MERGE, _BRANCH, _BRANCH_IF, _RETURN, _EXTRACT = 248, 247, 249, 250, 254, 81
_TRUE, _FALSE, _NULL = 41, 42, 46
_CONSTANTS = (_TRUE, _FALSE, Op.CONSTANT, Op.CONSTANT_COMPOSITE, _NULL)
_DEEPEST = 64


def to_mlir(data: bytes, name: str, symbols: Sequence[str]) -> str:
    """Functions of a module, and those that they call, as MLIR.

    name: how errors call the file. Raises OpspliceError for what is not SPIR-V, for a function that is not there, and
    for one that cannot be written so.
    """
    _, instructions = spirv_reader.read_instructions(data, name)
    declarations, first = spirv_reader.read_declarations(instructions, name)
    try:
        constants = {operands[1]: (op, operands) for op, operands in instructions[:first] if op in _CONSTANTS}
        writer = _Writer(name, declarations, constants)
        bodies = spirv_reader.functions(instructions[first:], name)
        named = {declarations.names.get(body[0][1][1], ""): body for body in bodies}
        written: dict[str, str] = {}
        pending = list(symbols)
        while pending:
            symbol = pending.pop()
            if symbol not in named:
                there = ", ".join(filter(None, named)) or "none that has a name"
                raise OpspliceError(f"{name} does not define a function '{symbol}'", hint=f"it defines {there}")
            if symbol not in written:
                written[symbol], called = writer.function(symbol, named[symbol])
                pending += called
    except (IndexError, KeyError, ValueError, RecursionError) as error:
        raise spirv_reader.damaged(name, f"a function refers to what is not there ({error})") from None
    return "\n".join(written.values()) + "\n"


@dataclass
class _Function:
    """A function while it is written.

    blocks: the instructions behind each label. types: of the values so far. names: of values that go by another's.
    """

    name: str
    blocks: dict[int, list[Instruction]]
    lines: list[str] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    called: list[str] = field(default_factory=list)
    types: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    written: int = 0


class _Writer:
    def __init__(self, name: str, declarations: Declarations, constants: dict[int, Instruction]) -> None:
        self.name = name
        self.declarations = declarations
        self.constants = constants

    def function(self, symbol: str, body: Sequence[Instruction]) -> tuple[str, list[str]]:
        """A whole function, and the names of those that it calls."""
        result = body[0][1][0]
        blocks: dict[int, list[Instruction]] = {}
        parameters = []
        label = None
        made = _Function(symbol, blocks)
        for opcode, operands in body[1:]:
            if opcode == _PARAMETER:
                kind = made.types[operands[1]] = self._type(operands[0])
                parameters.append(f"%v{operands[1]}: {kind}")
            elif opcode == _LABEL:
                label = operands[0]
                blocks[label] = []
            elif opcode != Op.FUNCTION_END and label is not None:
                blocks[label].append((opcode, operands))
        if not blocks:
            raise OpspliceError(f"function '{symbol}' of {self.name} has no body")
        self._block(made, next(iter(blocks)), None, 0)
        head = f'spirv.func @{symbol}({", ".join(parameters)}) -> {self._type(result)} "None" {{'
        return "\n".join([head, *made.constants, *made.lines, "}"]), made.called

    # ---- blocks ---------------------------------------------------------------------------------------------------

    def _block(self, made: _Function, label: int, stop: int | None, depth: int) -> None:
        """A block and what follows it, up to a branch to `stop`."""
        while label != stop:
            following, merge = None, None
            made.written += 1
            if depth > _DEEPEST or made.written > len(made.blocks) * 2:
                raise self._refused(made, "a loop")
            for opcode, operands in made.blocks[label]:
                if opcode == _MERGE:
                    merge = operands[0]
                elif opcode == _BRANCH:
                    following = operands[0]
                    break
                elif opcode == _BRANCH_IF:
                    if merge is None:
                        raise self._refused(made, "a branch that is not structured")
                    self._selection(made, operands, merge, depth)
                    following = merge
                    break
                elif opcode == _RETURN:
                    if stop is not None:
                        raise self._refused(
                            made, "a return inside of an if", "keep the result in a var, or use select()"
                        )
                    made.lines.append(f"spirv.ReturnValue {self._value(made, operands[0])} : {made.types[operands[0]]}")
                    return
                else:
                    self._instruction(made, opcode, operands)
            if following is None:
                raise self._refused(made, "a block that leads nowhere")
            label = following

    def _selection(self, made: _Function, operands: Sequence[int], merge: int, depth: int) -> None:
        condition = self._value(made, operands[0])
        names = [f"^merge{merge}" if target == merge else f"^block{target}" for target in operands[1:3]]
        made.lines += ["spirv.mlir.selection {", f"spirv.BranchConditional {condition}, {names[0]}, {names[1]}"]
        for target in dict.fromkeys(operands[1:3]):
            if target != merge:
                made.lines.append(f"^block{target}:")
                self._block(made, target, merge, depth + 1)
                made.lines.append(f"spirv.Branch ^merge{merge}")
        made.lines += [f"^merge{merge}:", "spirv.mlir.merge", "}"]

    # ---- instructions ---------------------------------------------------------------------------------------------

    def _instruction(self, made: _Function, opcode: int, operands: Sequence[int]) -> None:
        if opcode in IGNORED:
            return
        if opcode in _PLAIN:
            self._op(made, f"spirv.{_PLAIN[opcode]}", operands, operands[2:])
        elif opcode == _EXT_INST and operands[3] in _GLSL:
            self._op(made, f"spirv.GL.{_GLSL[operands[3]]}", operands, operands[4:])
        elif opcode == _CALL:
            made.called.append(self.declarations.names[operands[2]])
            attributes = f" <{{callee = @{made.called[-1]}}}>"
            self._op(made, "spirv.FunctionCall", operands, operands[3:], attributes)
        elif opcode == _EXTRACT:
            indices = ", ".join(f"{index} : i32" for index in operands[3:])
            self._op(made, "spirv.CompositeExtract", operands, operands[2:3], f" <{{indices = [{indices}]}}>")
        elif opcode == Op.VARIABLE and operands[2] == _FUNCTION_STORAGE:
            kind = made.types[operands[1]] = self._type(operands[0])
            first = f" init({self._value(made, operands[3])})" if len(operands) > 3 else ""
            # Wherever it stands, it is one variable: of a function, not of a choice in it.
            made.constants.append(f"%v{operands[1]} = spirv.Variable{first} : {kind}")
        elif opcode == _LOAD:
            kind = made.types[operands[1]] = self._type(operands[0])
            made.lines.append(f'%v{operands[1]} = spirv.Load "Function" {self._value(made, operands[2])} : {kind}')
        elif opcode == _STORE:
            pointer, value = (self._value(made, operand) for operand in operands[:2])
            made.lines.append(f'spirv.Store "Function" {pointer}, {value} : {made.types[operands[1]]}')
        else:
            glsl = f"function {operands[3]} of GLSL.std.450" if opcode == _EXT_INST else f"instruction {opcode}"
            raise self._refused(made, _WHAT.get(opcode, glsl))

    def _op(self, made: _Function, op: str, operands: Sequence[int], used: Sequence[int], attributes: str = "") -> None:
        kind, number = self._type(operands[0]), operands[1]
        if op == "spirv.Bitcast" and made.types.get(used[0]) == kind:  # MLIR's whole numbers have no sign
            made.types[number], made.names[number] = kind, self._value(made, used[0])
            return
        values = ", ".join([self._value(made, each) for each in used])
        kinds = ", ".join(made.types[each] for each in used)
        made.types[number] = kind
        made.lines.append(f'%v{number} = "{op}"({values}){attributes} : ({kinds}) -> {kind}')

    def _value(self, made: _Function, number: int) -> str:
        """A value's name. Constants are written when they are first used."""
        if number not in made.types and number in self.constants:
            opcode, operands = self.constants[number]
            kind = self._type(operands[0])
            if opcode == Op.CONSTANT_COMPOSITE:
                parts = [self._value(made, part) for part in operands[2:]]
                kinds = ", ".join(made.types[part] for part in operands[2:])
                line = f'"spirv.CompositeConstruct"({", ".join(parts)}) : ({kinds}) -> {kind}'
            else:
                literal = _literal(kind, opcode, operands[2:])
                line = f"spirv.Constant {literal}" + f" : {kind}" * (kind != "i1")
            made.types[number] = kind
            made.constants.append(f"%v{number} = {line}")
        if number not in made.types:
            raise self._refused(made, "a value that it does not make")
        return made.names.get(number, f"%v{number}")

    def _type(self, number: int) -> str:
        kind = self.declarations.types[number]
        if kind.opcode == Op.TYPE_BOOL:
            return "i1"
        if kind.opcode in (Op.TYPE_INT, Op.TYPE_FLOAT):
            return f"{'i' if kind.opcode == Op.TYPE_INT else 'f'}{kind.operands[0]}"
        if kind.opcode == Op.TYPE_VECTOR:
            return f"vector<{kind.operands[1]}x{self._type(kind.operands[0])}>"
        if kind.opcode == Op.TYPE_POINTER and kind.operands[0] == _FUNCTION_STORAGE:
            return f"!spirv.ptr<{self._type(kind.operands[1])}, Function>"
        raise OpspliceError(
            f"a function of {self.name} is of a type that cannot be taken over", hint="scalars and vectors of them can"
        )

    def _refused(self, made: _Function, what: str, hint: str | None = None) -> OpspliceError:
        return OpspliceError(
            f"function '{made.name}' of {self.name} has {what}, which cannot be taken over",
            hint=hint or "write it without: what goes into the compiler's own code is a plain formula",
        )


def _literal(kind: str, opcode: int, words: Sequence[int]) -> str:
    if kind == "i1":
        return "true" if opcode == _TRUE else "false"
    if kind.startswith("vector"):
        return "dense<0.0>" if "xf" in kind else "dense<0>"
    width = int(kind[1:])
    bits = sum(word << 32 * at for at, word in enumerate(words)) & ((1 << width) - 1)
    if kind[0] == "f":
        return f"0x{bits:0{width // 4}X}"
    return str(bits - (1 << width) if bits >> (width - 1) else bits)
