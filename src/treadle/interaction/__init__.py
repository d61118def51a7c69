"""Floor 3: approvals and questions of a turn: what is asked, and what is answered."""
