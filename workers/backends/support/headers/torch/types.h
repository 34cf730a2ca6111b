// Light stand-in for PyTorch's <torch/types.h>: tensors with their methods and operators, types,
// dispatch macros, and the functions below.  An extension that needs more does not compile with it
// and is compiled with PyTorch's own header (light_headers.py).
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#define AT_PER_OPERATOR_HEADERS  // TensorOperators.h then includes the operators that it needs only
#include <ATen/TensorOperators.h>
#undef AT_PER_OPERATOR_HEADERS

#include <ATen/Dispatch.h>
#include <c10/core/TensorOptions.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

namespace torch {

using namespace at;
using std::nullopt;
using std::optional;

using Dtype = at::ScalarType;

constexpr auto kUInt8 = at::kByte, kInt8 = at::kChar, kInt16 = at::kShort, kInt32 = at::kInt;
constexpr auto kInt64 = at::kLong, kFloat16 = at::kHalf, kFloat32 = at::kFloat;
constexpr auto kFloat64 = at::kDouble;

}  // namespace torch
