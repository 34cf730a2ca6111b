"""Names by which a source reaches into its process: modules, attributes, and texts."""

from __future__ import annotations

MODULES = frozenset(
    {
        "gc",
        "inspect",
        "workers",
        "bdb",
        "builtins",
        "cloudpickle",
        "code",
        "codeop",
        "cProfile",
        "dill",
        "doctest",
        "imp",
        "importlib",
        "marshal",
        "multiprocessing",
        "pdb",
        "pickle",
        "profile",
        "runpy",
        "subprocess",
        "timeit",
        "torch.multiprocessing",
        "torch.utils._python_dispatch",
        "trace",
        "unittest",
    }
)
"""Modules with a view of other code or of other processes, or that run text
(timeit), by name or beginning.
"""

HARMLESS = frozenset(
    {
        "inspect.signature",
        "inspect.Signature",
        "inspect.Signature.empty",
        "inspect.Parameter",
        "inspect.Parameter.KEYWORD_ONLY",
        "inspect.Parameter.POSITIONAL_ONLY",
        "inspect.Parameter.POSITIONAL_OR_KEYWORD",
        "inspect.Parameter.VAR_KEYWORD",
        "inspect.Parameter.VAR_POSITIONAL",
        "inspect.Parameter.empty",
        "timeit.default_timer",
        "multiprocessing.cpu_count",
        "gc.collect",
        "importlib.metadata",
        "importlib.util.find_spec",
        "torch.utils._python_dispatch.is_traceable_wrapper_subclass",
        "unittest.mock.MagicMock",
        "unittest.mock.Mock",
    }
)
"""Their names without such a view."""

HANDLED = frozenset({"gc", "inspect"})
"""Modules whose import is harmless and whose members are judged where they are used."""

BY_USE = HANDLED | {"importlib", "importlib.util"}
"""The same, with importlib (imports_by_name.py)."""

ATTRIBUTES = frozenset(
    {
        "_current_frames",
        "_disable_current_modes",
        "_DisablePythonDispatcher",
        "_DisableTorchDispatch",
        "DisableTorchFunction",
        "DisableTorchFunctionSubclass",
        "_TensorBase",
        "TensorBase",
        "_ExcludeDispatchKeyGuard",
        "_getframe",
        "_pop_mode_temporarily",
        "_profiler",
        "_profiler_enabled",
        "_is_profiler_enabled",
        "_len_torch_dispatch_stack",
        "_get_current_dispatch_mode",
        "ag_frame",
        "cr_frame",
        "_enable_record_function",
        "_share_fd_cpu_",
        "_share_filename_cpu_",
        "_write_file",
        "enable_onednn_fusion",
        "eval_str",
        "execv",
        "f_back",
        "f_builtins",
        "f_globals",
        "f_locals",
        "fork",
        "forkpty",
        "ForwardRef",
        "from_address",
        "get_type_hints",
        "gi_frame",
        "memmove",
        "meta_path",
        "optimize_for_inference",
        "popen",
        "posix_spawn",
        "posix_spawnp",
        "ProcessPoolExecutor",
        "profiler",
        "pythonapi",
        "setprofile",
        "settrace",
        "spawnv",
        "spawnvp",
        "string_at",
        "system",
        "tb_frame",
        "_jit_set_llga_enabled",
        "__array_interface__",
        "__array_struct__",
        "__base__",
        "__bases__",
        "__builtins__",
        "__closure__",
        "__code__",
        "__globals__",
        "__loader__",
        "__mro__",
        "__self__",
        "__subclasses__",
    }
)
"""Attributes through which other code, or memory and processes past its account, are reached."""

DOTTED = frozenset({"sys.modules", "torch.jit.freeze"})
"""The same by their whole names."""

TEXTS = frozenset({"__array_interface__", "__array_struct__"})
"""Names that numpy looks up in an object."""

NATIVE = frozenset({"cffi", "cpp_extension", "ctypes", "load_inline", "load_library", "numba"})
"""Modules and members that run native code; its work on the CPU device is in no account."""

MEMBERS = frozenset({"__delattr__", "__dict__", "__setattr__"})
"""Attributes of a module or class through which its members are replaced."""

SWITCHES = frozenset({"backends", "config", "knobs"})
"""Parts of modules that are there to be assigned to."""

WATCHED = frozenset({"gc", "inspect", "os", "sys", "threading"})
"""Modules with ways among their members."""

ABSENT = frozenset({"reference"})
"""Modules that there are none of in a candidate's process: the problem, which some candidates test
themselves by where they were written.
"""

GENERIC = frozenset({"fork", "popen", "profiler", "system"})
"""Attributes with names that are ordinary words: a text of that name says nothing."""

STARTED = frozenset(
    {"app", "numpy", "sitecustomize", "torch", "triton", "usercustomize", "workers"}
)
"""Modules that Python imports before a candidate, or for it: a file of their name
would take their place.
"""

WRITING = frozenset(
    {
        "copy",
        "copyfile",
        "open",
        "rename",
        "replace",
        "symlink",
        "symlink_to",
        "write_bytes",
        "write_text",
    }
)
"""Functions by which a file comes to be; `open` for reading among them."""
