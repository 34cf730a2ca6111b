"""BROWSE: headings and terms with their meaning: tooltips of tables, and the glossary page."""

from __future__ import annotations

from types import MappingProxyType

TERMS = MappingProxyType(
    {
        "Ablation": "The candidate's kernels are replaced; a kernel without effect is a decoy.",
        "Attempts": (
            "Answers that count: with and without code, evaluated or not possible to evaluate."
        ),
        "Backend": "Language of the candidate's kernels: Triton, CUDA or plain PyTorch.",
        "Baseline": "How the reference is executed: eager PyTorch, or compiled by torch.compile.",
        "Best speedup": "Highest speedup of an attempt that is correct and no hack.",
        "Candidate": "The kernel source under test; it defines ModelNew.",
        "Correct": "Every verified call was right, and the verdict is not hack.",
        "Coverage": (
            "Share of GPU time, or of launches, in the candidate's own kernels; on the CPU device"
            " of modelled work."
        ),
        "Decoy": "A kernel that runs without contributing to the result.",
        "Detector": "A rule that reads the measurements of an evaluation and reports findings.",
        "Device": "Kind or name of the GPU (or CPU) that evaluated the candidate.",
        "Device-time speedup": (
            "Speedup without the host's launching, of calls replayed from CUDA graphs; not "
            "credited."
        ),
        "Evaluation": "Measurements of one candidate on one device; the link opens all of them.",
        "fast_p": "Share of attempts that are correct and faster than p times the reference.",
        "Findings": "Reports of detectors on one evaluation.",
        "Geometric mean": "Geometric mean of the speedups of correct attempts.",
        "Hack": "A verdict: the result is not honest work, so its speedup is not credited.",
        "Hacks": "Attempts with the verdict hack, as a share of all attempts or as a count.",
        "Job": (
            "A request to evaluate one candidate; it is queued, running, finished, failed or"
            " cancelled."
        ),
        "Kernel": "A function that runs on the device.",
        "Launches": "Times that a kernel was started.",
        "Level": "Difficulty given by the source set, for example KernelBench levels 1 to 3.",
        "pass@k": "Chance that at least one of k samples is correct.",
        "Per call": "Time of one call, from the fastest third of the timing groups.",
        "Policy": "Rules by which findings become a verdict.",
        "Precision": "Share of a detector's accusations that reviewers confirmed.",
        "Problem": "A PyTorch reference with inputs; candidates are compared with it.",
        "Recall": "Share of the hacks found by reviewers that the detector accused.",
        "Reward": "Number that a trainer learns from, computed from stored measurements.",
        "Roofline": "Greatest rate that bandwidth and compute of the device allow.",
        "Run": "A campaign of one model with its settings and, in training, its step.",
        "Speedup": "Reference time over candidate time, with a 95 % confidence interval.",
        "Stale": "A verdict behind a row of a dataset has changed since the export.",
        "Status": (
            "Outcome of an evaluation: passed, incorrect, compile error, runtime error, timeout,"
            " out of memory, crashed or invalid."
        ),
        "Training": (
            "Runs of one model with a training step; `training` of their settings tells several"
            " apart."
        ),
        "Trajectory": "A model's attempts on one problem, turn by turn.",
        "Turn": "One answer in a trajectory.",
        "Verdict": "Judgement of an evaluation: clean, suspect or hack.",
    }
)
"""Term → meaning, as the glossary lists it."""

HEADINGS = MappingProxyType(
    {
        "> 1×": "Share of attempts that are correct and faster than the reference.",
        "> 1.2×": (
            "Share of attempts that are correct and more than 1.2 times as fast as the reference."
        ),
        "> 1.5×": (
            "Share of attempts that are correct and more than 1.5 times as fast as the reference."
        ),
        "> 2×": "Share of attempts that are correct and more than twice as fast as the reference.",
        "Action": "Kind of change.",
        "Assigned to": "Reviewers of the queue.",
        "Author": "User who wrote the comment or set the tag.",
        "Deciding findings": "Findings that changed the verdict.",
        "Best after": "Best credited speedup in the compared run.",
        "Best before": "Best credited speedup in the baseline run.",
        "Call": "Number of the verified call.",
        "Calls": "Calls of the candidate in this block or case.",
        "Case": "Name of the problem's case.",
        "Changed object": "Object of the action.",
        "Change": "Difference from the first column to the second.",
        "Checked": "Time of the check.",
        "Class": "Kind of device that the job asks for.",
        "Column": "Column of the file.",
        "Conditions": "Filter that evaluations of the queue meet.",
        "Correct after": "Correct attempts of all attempts in the compared run.",
        "Correct before": "Correct attempts of all attempts in the baseline run.",
        "Created": "Time since it was created.",
        "Dataset": "An export: rows with manifest and checksums.",
        "Difference, 95 % CI": (
            "Interval of the difference of the shares correct, in percentage points."
        ),
        "Distinct": "Number of different values.",
        "Done": "Share of the work that is done.",
        "Error/tolerance": "Largest error of the call as a share of the tolerance.",
        "Events": "Trace events in the timeline.",
        "Device name": "Name of the device that evaluated the candidate.",
        "Expected": "Value of honest work.",
        "Figure": "Measured quantity.",
        "File": "File of the dataset.",
        "FLOPs": "Floating-point operations of one call.",
        "Frequent values": (
            "Values that several rows have, with their number of rows; the link shows these rows."
        ),
        "Format": "Columns of the rows, as one trainer reads them.",
        "GB/s": "Bytes moved per second.",
        "GFLOP/s": "Floating-point operations per second, in billions.",
        "Got": "Value that was found.",
        "Grid, block": "Launch configuration: blocks in the grid, threads in a block.",
        "Group": "Timing group: two blocks of the reference and two of the candidate.",
        "Id": "Last digits of the id.",
        "Index": "Place of the element in the output, from 0.",
        "Indexes": "Size of the indexes.",
        "Info": "Findings that only inform.",
        "Inputs": "Kind of inputs of the call.",
        "Kind": "Type of the object.",
        "Largest error": "Largest absolute error over the root mean square of the reference.",
        "Last heartbeat": "Time since the worker last reported.",
        "Last used": "Time since a request used the token.",
        "Locked by": "Reviewer who holds the item.",
        "Made from": "Earlier attempt that this one continues.",
        "Max": "Largest value or length.",
        "Mean": "Mean value or length.",
        "Mean contribution": "Mean of this part over all turns; the parts add up to the reward.",
        "Mean reward": "Mean of the turns' rewards by the service's function.",
        "Measured": "Speedup as measured, credited or not.",
        "Median": "Median of the latest measurements.",
        "Memory of the reference": "Peak memory of the reference.",
        "Message": "Error message of the case.",
        "Min": "Smallest value or length.",
        "Missing": "Rows without a value.",
        "Model": "Language model that wrote the answers.",
        "Modelled work": (
            "Bytes that the kernel moved, or that a GPU moves in the time of its arithmetic."
        ),
        "n": "Number of values behind the figure.",
        "Name": "Name of the account or token.",
        "Notes": "Facts worth a look.",
        "New verdict": "Verdict by the detectors of this version.",
        "Share of roofline": "Attained rate as a share of the roofline.",
        "Oldest wait": "Time that the oldest queued job has waited.",
        "Subject": "Object that the comment or tag is about.",
        "Open": "Links to the turns behind the figures.",
        "Opinions": "Reviews given, of those wanted.",
        "Outcome": "Result of the comparison or compilation.",
        "Output": "Number of the output.",
        "p50": "Median.",
        "p95": "95 % are at most this.",
        "p99": "99 % are at most this.",
        "Part": "Term of the reward.",
        "Per launch": "Mean time of one launch.",
        "Permissions": "Scopes of the token.",
        "Priority": "Order among jobs for the same device.",
        "Problems": "Number of problems.",
        "Protocol": "Version of the rules by which the figures were measured.",
        "Queue name": "Name of the filter; the link lists its evaluations.",
        "Queue": "Queue of workers that may run the job.",
        "Range": "Smallest to largest value.",
        "Range of": "Whether the range is of values or of lengths.",
        "Reason": "Reason that was given.",
        "Reference": "Time of the reference per call.",
        "Registers": "Registers per thread.",
        "Relative error": "‖output − reference‖ / ‖reference‖, with its limit.",
        "Result": "Outcome of the job or call.",
        "Reviewed": "Evaluations with all the opinions they want, of all in the queue.",
        "Role": "Role of the account.",
        "Row": "Row of the file, from 0.",
        "Rows": "Number of rows.",
        "Running": "Jobs that run now.",
        "Score": "Order of the queue: fast × suspicious × in a dataset.",
        "Seed": "Seed of the inputs.",
        "Setting": "Name of the setting.",
        "SHA-256": "Checksum of the file.",
        "Share": "Share of the total.",
        "Shared memory": "Shared memory of one block.",
        "Side": "Reference or candidate.",
        "Signature": "Types of the kernel's arguments.",
        "Size": "Size in bytes.",
        "Source": "Origin of the kernel: the candidate, or a library.",
        "Source set": "Collection that the problem comes from.",
        "Speed ratio, 95 % CI": "Interval of the ratio of the geometric-mean speedups.",
        "Spills": "Registers that did not fit, in bytes of local memory.",
        "Stage": "Part of an evaluation.",
        "State": "State of the job or device.",
        "Step": "Training step of the model.",
        "Stored verdict": "Label of the verdict that is stored.",
        "Suspect": "Findings that make a verdict suspect.",
        "Table": "Database table.",
        "Tag": "Label that users gave.",
        "Time": "Time spent.",
        "Took": "Duration.",
        "Tolerance": "Tolerance that decided.",
        "Total": "Time over all launches.",
        "Turns": "Number of turns.",
        "Turns with the part": "Turns whose reward has this part.",
        "Type": "Type of the values.",
        "User": "Account name.",
        "Value": "Value of the setting.",
        "Waiting": "Jobs that wait.",
        "Wall": "Time by the trusted clock.",
        "Filter": "Filter of the selection.",
        "Reviewer": "User who gave the verdict.",
        "Worker": "Host of the worker that claimed the job last.",
        "Worst": "Largest error as a share of the tolerance.",
        "Wrong": "Calls that were wrong.",
        "Since": "Time since it was created.",
        "Before go": "Time on the device before the block began.",
        "After done": "Time until the device came to rest after the block.",
        "Speedup, should hold 1": "Interval of the reference against itself; it should contain 1.",
        "Obstacle": "Reason for which the check did not pass.",
        "Denominator": "Attempts, or trajectories, that the shares are of.",
        "Token": "Name of the token.",
        "Begins with": "First characters, to tell it from others.",
        "Expires": "Time at which the token expires.",
        "Rows (est.)": "Number of rows by the planner's statistics.",
        "Table size": "Size of the rows.",
        "TOAST": "Size of long values, stored apart.",
        "Details": "Values of the change.",
        "Variable": "Environment variable of the setting.",
        "Before": "Value in the earlier dataset.",
        "After": "Value in the later dataset.",
        "Finding": "Label that the finding proposes.",
        "Summary": "Finding in one sentence.",
        "Explanation": "Behaviour that the detector looks for.",
        "Precision: its accusations that were hacks": (
            "Share of its accusations that reviewers confirmed."
        ),
        "Recall: hacks that it accused": "Share of the hacks found by reviewers that it accused.",
        "Verdict so far": "Verdict of the detectors.",
        "Reason in queue": "Reason for which the item is in the queue.",
        "Longest": "Longest event.",
        "Amount": "Quantity that the budget limits.",
        "Spent": "Used so far.",
        "Reserved": "Set aside for calls in flight.",
        "Budget": "Limit of the collection.",
        "Endpoint": "Server of the model that is called.",
        "Workers": (
            "Processes that call the endpoint and were heard of within the last half minute."
        ),
        "In flight": "Calls that were sent and have not ended, of all workers together.",
        "Limit": (
            "Calls that may be in flight now, and the most that the endpoint is configured for."
        ),
        "Due": "Calls and decisions that wait for a worker.",
        "Probe": "Time of the last probe of the endpoint, with its warnings.",
        "Failed": "Calls or rollouts that failed.",
        "Lost": "Calls without an answer.",
        "Input": "Tokens of the prompts.",
        "US dollars": "Price of the tokens.",
        "First token": "Time to the first token of an answer.",
        "Errors": "Calls that ended by an error.",
        "Sample": "Number of the rollout among those of its problem.",
        "End": "Reason for which the rollout ended.",
        "Tokens": "Tokens of the answers.",
        "Strategy": "Rule by which the next call of a rollout is chosen.",
        "Endpoints": "Servers of models that are called.",
        "Rollouts": "Trajectories that the collection makes.",
        "Attempt": "Answer of the rollout, with its place in the tree.",
        "Shown": "Earlier attempts that the prompt contained.",
        "Operator": "Kind of step that made the attempt from earlier ones.",
        "Links": "Pages of the turn and its evaluation.",
        "Test": "Kind of inputs, or case, on which candidates are checked.",
        "Outputs": "Types and shapes of the outputs.",
        "Candidates": "Candidates with an outcome on the test.",
        "Pass rate": "Share of these candidates that pass.",
        "LOO-AUC": (
            "Chance that passing candidates do better on the other tests than failing ones; 0.5 is"
            " luck."
        ),
        "Weight": "Share of the test in a weighted sum that separates candidates (ACES-C).",
        "Fails only here": "Candidates that fail this test alone.",
        "Attempts that the filter keeps": "Attempts of the problem that the selection keeps.",
    }
)
"""Heading of a table that is no term → tooltip."""


LABELS = MappingProxyType(
    {
        "Comment contains": "Text in the comment.",
        "Compare with": "Run whose figures are set against this one's.",
        "Compared with": "Turn that the shown turn is compared with.",
        "Device class": "Kind of device: a GPU model, or the CPU.",
        "Kind of hack, if it is one": "Way of cheating that you see.",
        "Latest evaluations": "Number of evaluations that are judged again, the newest first.",
        "Name contains": "Part of the name, in upper or lower case.",
        "Problem contains": "Part of the problem's name, in upper or lower case.",
        "Problem name": "Name under which the problem is stored.",
        "Reason of failure": "Kind of infrastructure fault that ended the job.",
        "Row contains": "Text in any column of the row.",
        "Run contains": "Part of the run's name, in upper or lower case.",
        "Save filter, columns and order as": "Name of the view; everybody sees it.",
        "Share of attempts that are": "Measure that the cells show.",
        "Stored problem, name contains": "Part of the name of a problem that is stored already.",
        "View": "Layout of the difference: one column or two.",
        "Turn outcome": "Outcome of at least one turn, or of none.",
        "Expires in": "Days until the token is refused.",
        "Filter of evaluations": (
            "Conditions that the evaluations behind rows fulfil, joined by and, or, not."
        ),
        "or a file": "A file with the source, read in place of the text above.",
        "Filter query": "Conditions on evaluations, joined by and, or, not.",
    }
)
"""Label of a form's field that is no heading → tooltip."""


def tip(label: str) -> str:
    """Tooltip of a heading or of a field; empty for one that is not known."""
    return TERMS.get(label) or HEADINGS.get(label) or LABELS.get(label, "")
