"""Children of ours that outlive nobody unnoticed: registered, found again, stopped (spec S-11)."""
