// Stands in for torch's header of this name, which torch's communication and autograd headers
// include: it declares all operators, which takes the compiler longer than the chip's own files.
// These are the ones that those headers use.
#pragma once

#include <ATen/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/Allocator.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/Exception.h>
