"""Floor 2: what plugin authors implement, as protocols and the records that go with them."""
