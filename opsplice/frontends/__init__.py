"""Where modules come from: files, text, bytecode and the `ir.Module` of another tool.

`load` brings each to one form, a `ModuleSource`, which a compilation reads into its own context. Nothing here knows
the pipeline, and nothing heavy is imported.
"""

from opsplice.frontends.source import ModuleSource, load

__all__ = ["ModuleSource", "load"]
