"""What a spec gets wrong although it is written well: names, ranks, types and dims."""
