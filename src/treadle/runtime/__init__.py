"""What a face may hold: the service, its sessions and its runs."""
