"""Our patterns and rules as transform-dialect specs that stock IREE runs."""
