"""What a run under faults left behind, and whether the promises about it were kept."""
