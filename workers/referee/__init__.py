"""EVALUATE: the trusted process of one device.  Inputs, comparison and the clock; it never runs, imports or unpickles
what a candidate sent.

Who is there
    serve.py       jobs in, evaluations out; a thread for each evaluation in flight
    host.py        what lives as long as the device: zygotes, spares, references, lease, clock
    device.py      what differs between a CPU and a GPU
    nursery.py     candidates' processes with a context and a first kernel, before a candidate arrives
    references.py  one process for each problem of late, in which evaluations have seats
    clock.py       the stopwatch: a process with one thread, which does nothing else

From a job to an evaluation
    evaluate.py    the stages in order
    by_cases.py    the same for each case of a problem that is given by cases, and one evaluation of all of them
    room.py        waiting for device memory
    seating.py     both sides get parameters and an arena
    trials.py      fresh inputs (batches.py), calls, verification (record.py); there is one kind of call
    unusual.py     calls on inputs that the problem's own distribution seldom has
    survey.py      where outputs come to lie on a GPU, so that they are read there
    compare.py     outputs against fp64
    contest.py     rounds of ABBA groups (blocks.py), held where it is quiet (venue.py)
    plan.py        how many calls, input sets and groups, by what is known so far
    score.py       what blocks make per call
    outcome.py     when groups say enough; ratio and confidence interval (statistics.py)
    own_time.py    a call's time where there is no reference to compare it with
    profile.py     where one call's time went
    ablate.py      do its kernels matter?
    reweigh.py     does it use weights that are all equal as long as nobody trains it?
    precompile.py  would they compile for a real GPU?  (CPU device)
    faults.py      whose fault it was
    events.py      the number that another evaluator would have printed
    baselines.py   the reference by torch.compile, timed like a candidate
    xid.py         faults that the driver reports
    health.py, lease.py, cores.py, roofline.py, stages.py, cancel.py

The protocol, for whoever wants to attack it
    What is shared   A SEQPACKET socket with requests and replies of fixed size (workers/wire.py), and two pieces of
                     memory: the mailbox (source, spec, text, tables) and the arena (parameters, input slots, output
                     slots).  A candidate's arena ends before the expected outputs: those are in the reference's.
    What is parsed   From a process that has run a candidate: a struct of four numbers, whose sequence number must be
                     that of the request; rows of fixed size; text, which is only shown.  A number that is no outcome,
                     a message of another size or a wrong sequence number ends the evaluation as `crashed`.
    A call           freeze the candidate (SIGSTOP to all its processes, until each stands) · write inputs that no call
                     has seen · poison the output slots · read away what is in the second-level cache · see that all
                     still stands · send the request · start the clock · let it run · stop the clock at its reply · copy
                     the outputs · let it run for a secret moment · freeze · see whether inputs or outputs have changed
                     since · compare.
    Nothing ahead    No signal stops what a candidate has left on the device: work behind a stream's wait for the last
                     byte of an input begins when that is written.  Once inputs are there, the referee waits until the
                     device has nothing to do; what that takes beyond what it takes before the reference's blocks is
                     added to the block (Block.before_us), and a detector names who makes it wait again and again.
    The clock        is ours (clock.py).  The time that the candidate claims is stored, and evidence against it only.
    What is secret   Seeds are drawn from os.urandom for each batch and handed to the reference alone, which draws every
                     slot under one of its own (of a recording, from the device's generator); block sizes are drawn for
                     each block, and for each batch the slot in which it begins.  A candidate sees inputs of the block
                     that is about to run, and no later.
    Outputs          are copied into slots by the shim while the clock runs, on both sides alike (CPU, and where
                     one side's cannot be mapped).  Else they are read where they lie: before the contest a *survey*
                     block says where, the process shares those pieces of its memory by descriptor (SEGMENT), and the
                     referee maps them, at the same distances from each other.  Base and size are the process's own
                     word; a lie shows other bytes of that process, which are then its answer.  Timed blocks *hold*
                     their outputs, all of them, until they are read.
    Done             is what the process says; the shim waits for the device first, with what was bound before a
                     candidate came.  After each timed block the referee asks something tiny of the device: work that
                     goes on all the same makes that wait (Block.settled_us); a detector compares both sides.
    The lease        Loading, compiling and checking share the device, timing has it alone; who checks for long steps
                     aside in between.  A canary kernel of known time runs before and after every round; where one of
                     them is slow, all is measured again.
    Alike            Before every block comes a hand-over of the same side: who has not run for some milliseconds, or
                     follows the other side, needs longer for the next thing that it does.  On a GPU's host both sides
                     launch from the same core.
    Time per call    The mean of a side's fastest third of blocks, less the mean of the fastest third of hand-overs:
                     something is added to a block now and then, and nothing is ever taken away.
    Precision        A contest stops at a half-width of 1 % (3 % where a call is shorter than 50 µs), when a slow
                     candidate is decided, or when its budget is spent.  The interval includes what each side's process
                     may be off by, its hand-over and all its calls, which no number of groups averages out.  One that
                     ends wider than a factor of two is held again, twice at the most.
    Open             Within a block a candidate can see the inputs of the calls to come, and answer all at once.  Of
                     Triton kernels the launches say so (calls_without_launch), of others nothing does.
    Last of all      comes a call with NaN and infinity among its inputs, which is held against nobody.
    Afterwards       The candidate's process is killed with everything that it started.  No process serves two."""
