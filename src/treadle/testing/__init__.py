"""The testing kit: scripted peers, clock and ids for tests of Treadle and of its plugins.

Shipped beside the house and imported by no room of it.
"""
