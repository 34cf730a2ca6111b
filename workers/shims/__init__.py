"""Code that runs inside untrusted processes, beside a problem's or a candidate's own code.

A shim for each kind of process, which answers the referee's requests
    candidate.py         loads a candidate, constructs its model, and calls it
    reference.py         the same for a problem; also draws inputs and computes expected outputs
    problem/             parts of the latter: a problem is described, and its inputs are varied
    builder.py           compiles a candidate's Triton kernels for a GPU that need not be there

Calls, the same code for both sides
    calls.py             calls on slots, and delivery of their outputs
    returned_outputs.py  outputs held to the problem's spec, and copied into slots
    graph_capture.py     calls recorded as CUDA graphs
    hidden_inputs.py     inputs of later calls, unreadable until their turn (CPU device)
    stack_depth.py       a random depth of the stack, which tells nothing of a call's purpose
    weights.py           a problem's weights in a candidate's model, by name and by hook
    call_errors.py       errors of calls: reply code, and explanation for people
    shortages.py         allocations that failed and that a library survived
    heap.py              where a model's objects lie, and the memory of tensors on the CPU
    warmup.py            work done before a candidate or a problem arrives
    kineto.py            calls under torch's profiler, and the origin of their kernels
    device_malloc.c      cudaMalloc of memory that has a descriptor
"""
