"""Parts that backends and shims share: import hook, kernel digests,
constants of a launch, the base class of dispatch modes, light headers of PyTorch.
"""
