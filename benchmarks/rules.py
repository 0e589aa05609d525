"""Rules by the number, each as a pattern of ours, as a matcher for IREE's `foreach_match`, and as a PDL pattern.

The first is softmax, which is in every layer of the payload. The others are in none of them: other chains of ops of a
norm, of a softmax and of elementwise ops, and softmax again for sizes that no layer has.
"""

from __future__ import annotations
