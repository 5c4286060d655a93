// Whether anything but autograd is to see a call: then it takes the way through Python, whose operators can be seen.
#pragma once

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace sdtw_torch {

// Whether the tensor is memory of a CPU or a CUDA device that holds its numbers as they are. Wrappers of transforms,
// subclasses with operators of their own, views that negate, nested and sparse tensors, and whatever else PyTorch may
// come to have, have other keys.
inline bool is_plain(const at::Tensor &tensor) {
  using c10::DispatchKey;
  constexpr c10::DispatchKeySet plain({DispatchKey::CPU, DispatchKey::CUDA, DispatchKey::ADInplaceOrView,
                                       DispatchKey::AutogradCPU, DispatchKey::AutogradCUDA, DispatchKey::AutocastCPU,
                                       DispatchKey::AutocastCUDA});
  return plain.has_all(tensor.key_set()) && !tensor._fw_grad(/*level=*/0).defined();
}

// Whether no mode, transform, trace or compiler is at work in this thread: they include keys of their own.
inline bool is_alone() {
  return c10::default_included_set.has_all(c10::impl::tls_local_dispatch_key_set().included_) &&
         at::impl::PythonTorchFunctionTLS::stack_len() == 0;
}

}  // namespace sdtw_torch
