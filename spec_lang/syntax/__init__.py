"""Text of the language: the grammar, the tree, the vocabulary, and errors that point at the text."""
