"""Who may run when."""
