// Light stand-in for PyTorch's <torch/extension.h>: types.h beside this file, and the conversions
// between tensors and Python's objects.
#pragma once

#include <torch/types.h>

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
