"""How long tests wait for what must come."""

# Seconds after which a child, a thread or a condition hangs. No test fails because a machine is slow: this is
# longer than any of them takes beside other work, and how long something takes is for benchmarks.
HANG = 600
