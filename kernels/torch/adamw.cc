// Global norm, clipping and AdamW of a list of tensors in three launches; formulas:
// kernels/optimizer/adamw.h, kernels/optimizer/global_norm.h.
//
// `scalars` holds a coxswain_optimizer_scalars on the device: the count of updates and what
// clipping decided stay there, the host reads neither. What the host knows, rates and addresses,
// goes there in one copy from page-locked memory.
#include <ATen/ops/zeros.h>

#include <cstring>

#include "kernels/torch/registration.h"
#include "kernels/torch/tensors.h"

namespace coxswain::kernels::torch_ops::adamw_op {
namespace {

struct Records {
  std::vector<coxswain_adamw_tensor> tensors;
  std::vector<coxswain_norm_tensor> norms;
  int64_t chunks = 0;
};

Records RecordsOf(at::TensorList parameters, at::TensorList gradients, at::TensorList m,
                  at::TensorList v, at::ArrayRef<double> weight_decay) {
  const size_t count = parameters.size();
  TORCH_CHECK_VALUE(gradients.size() == count && m.size() == count && v.size() == count &&
                        weight_decay.size() == count,
                    "coxswain: lists of different lengths");
  Records records;
  for (size_t i = 0; i < count; ++i) {
    const Tensor& p = parameters[i];
    const int64_t n = p.numel();
    RequireSize(gradients[i], n, "a gradient");
    RequireSize(m[i], n, "a first moment");
    RequireSize(v[i], n, "a second moment");
    coxswain_adamw_tensor tensor = {};
    tensor.p = Address(p, p, "a parameter");
    tensor.g = Address(gradients[i], gradients[i].scalar_type(), p, "a gradient");
    tensor.m = Floats(m[i], p, "a first moment");
    tensor.v = Floats(v[i], p, "a second moment");
    tensor.n = n;
    tensor.first_chunk = records.chunks;
    tensor.lr_scale = 1.0;
    tensor.weight_decay = weight_decay[i];
    tensor.p_dtype = static_cast<uint8_t>(Type(p, "a parameter"));
    tensor.g_dtype = static_cast<uint8_t>(Type(gradients[i], "a gradient"));
    tensor.index = static_cast<uint32_t>(i);
    records.tensors.push_back(tensor);
    coxswain_norm_tensor norm = {};
    norm.data = tensor.g;
    norm.elements = n;
    norm.first_chunk = records.chunks;
    norm.dtype = tensor.g_dtype;
    records.norms.push_back(norm);
    records.chunks += (n + COXSWAIN_TENSOR_CHUNK - 1) / COXSWAIN_TENSOR_CHUNK;
  }
  return records;
}

// What the host knows, back to back, each part at a multiple of 16 bytes.
class Upload {
 public:
  template <typename T>
  int64_t Add(const T* data, size_t count) {
    const int64_t at = static_cast<int64_t>(bytes_.size());
    bytes_.resize(bytes_.size() + (count * sizeof(T) + 15) / 16 * 16);
    std::memcpy(bytes_.data() + at, data, count * sizeof(T));
    return at;
  }
  Tensor To(const Tensor& like) const {
    const Tensor host =
        at::empty({static_cast<int64_t>(bytes_.size())},
                  at::TensorOptions().dtype(at::kByte).pinned_memory(like.is_cuda()));
    std::memcpy(host.data_ptr(), bytes_.data(), bytes_.size());
    return host.to(like.device(), at::kByte, /*non_blocking=*/true, /*copy=*/false);
  }

 private:
  std::vector<char> bytes_;
};

struct Rates {
  double lr, beta1, beta2, eps;
};

// The norm of the gradients before clipping, one float64.
Tensor AdamW(at::TensorList parameters, at::TensorList gradients, at::TensorList m,
             at::TensorList v, const Tensor& scalars, const Tensor& step, double lr, double beta1,
             double beta2, double eps, at::ArrayRef<double> weight_decay, double max_norm,
             int64_t seed) {
  TORCH_CHECK_VALUE(!parameters.empty(), "coxswain: no parameters");
  const Tensor& like = parameters[0];
  RequireSize(scalars, sizeof(coxswain_optimizer_scalars), "scalars");
  const Records records = RecordsOf(parameters, gradients, m, v, weight_decay);
  const Rates rates = {lr, beta1, beta2, eps};
  Upload upload;
  const int64_t tensors_at = upload.Add(records.tensors.data(), records.tensors.size());
  const int64_t norms_at = upload.Add(records.norms.data(), records.norms.size());
  const int64_t rates_at = upload.Add(&rates, 1);
  const Tensor device = upload.To(like);
  char* base = static_cast<char*>(device.data_ptr());
  scalars.narrow(0, 0, sizeof(Rates)).copy_(device.narrow(0, rates_at, sizeof(Rates)));
  auto* on_device =
      static_cast<coxswain_optimizer_scalars*>(Address(scalars, at::kByte, like, "scalars"));

  const Tensor sums = at::zeros({2}, like.options().dtype(at::kDouble));
  Tensor norm = at::zeros({}, like.options().dtype(at::kDouble));
  coxswain_global_norm_args norms = {};
  norms.tensors = reinterpret_cast<coxswain_norm_tensor*>(base + norms_at);
  norms.count = static_cast<int64_t>(records.norms.size());
  norms.chunks = records.chunks;
  norms.sums = static_cast<coxswain_norm_sums*>(sums.data_ptr());
  COXSWAIN_LAUNCH_LENT(global_norm, norms, like);
  coxswain_decide_update_args decide = {};
  decide.sums = norms.sums;
  decide.max_norm = max_norm;
  decide.scalars = on_device;
  decide.norm = norm.data_ptr<double>();
  COXSWAIN_LAUNCH(decide_update, decide, like);
  coxswain_adamw_args args = {};
  args.tensors = reinterpret_cast<coxswain_adamw_tensor*>(base + tensors_at);
  args.count = norms.count;
  args.chunks = records.chunks;
  args.scalars = on_device;
  args.key[0] = static_cast<uint32_t>(seed);
  args.key[1] = static_cast<uint32_t>(static_cast<uint64_t>(seed) >> 32);
  args.step = reinterpret_cast<const uint32_t*>(Ints(step, like, "step"));
  COXSWAIN_LAUNCH(adamw, args, like);
  return norm;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(coxswain, library) {
  SayPythonModule(library);
  library.def(
      "adamw(Tensor(a!)[] parameters, Tensor[] gradients, Tensor(b!)[] m, Tensor(c!)[] v, "
      "Tensor(d!) scalars, Tensor step, float lr, float beta1, float beta2, float eps, float[] "
      "weight_decay, float max_norm, int seed) -> Tensor");
}
TORCH_LIBRARY_IMPL(coxswain, CPU, library) { library.impl("adamw", AdamW); }
TORCH_LIBRARY_IMPL(coxswain, CUDA, library) { library.impl("adamw", AdamW); }

}  // namespace coxswain::kernels::torch_ops::adamw_op
