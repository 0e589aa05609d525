"""The tree of a spec: what a `.splice` file says, as frozen data.

The parser builds it, the checker judges it, the formatter prints it, the matchers compile its patterns. It knows
nothing of MLIR payloads. Every node carries the span of source text that it came from.
"""

from opsplice.spec_lang.syntax.tree.dim_expressions import *
from opsplice.spec_lang.syntax.tree.items import *
from opsplice.spec_lang.syntax.tree.pattern_expressions import *
from opsplice.spec_lang.syntax.tree.spans import *
from opsplice.spec_lang.syntax.tree.traversal import *
from opsplice.spec_lang.syntax.tree.types import *
