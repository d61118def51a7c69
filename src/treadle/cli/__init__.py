"""Floor 8: the command line. It holds no decision that another face would need too."""
