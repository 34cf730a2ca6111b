"""COLLECT: models write kernels, turn by turn, and every call is on record.

    start.py      a specification → rows: everything is checked before anything is spent
    advance.py    one decision: ended attempts → outcomes and feedback → the next
                  attempts, or the end
    calls.py      one call of a model: claimed, reserved, sent, recorded, its code
                  queued for evaluation
    sweep.py      lost messages, lapsed leases, deadlines

PostgreSQL decides; a message is the permission to look.  Nothing waits in memory: a process that
dies costs the calls that it had in flight.
"""
