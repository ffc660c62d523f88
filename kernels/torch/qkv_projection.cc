// The products of q, k and v into one packed tensor [T, (nq + 2 nkv) hd], RMSNorm of its q and k
// heads where there are weights of it, and rotation: what stands before attention. Formulas:
// kernels/attention/heads.h, kernels/rope.h.
//
// The weights are three, or one whose rows are those of q, k, v. Saved for backward: x, and with a
// norm q and k before it.
#include <ATen/ops/cat.h>

#include "kernels/torch/product.h"
#include "kernels/torch/registration.h"
#include "kernels/torch/rope.h"

namespace coxswain::kernels::torch_ops::qkv_projection_op {
namespace {

// Those given of q's, k's and v's.
using Parts = std::vector<Tensor>;
Parts Given(const Tensor& q, const optional<Tensor>& k, const optional<Tensor>& v) {
  Parts parts = {q};
  TORCH_CHECK_VALUE(k.has_value() == v.has_value(), "coxswain: one of k and v is given");
  if (k.has_value()) parts.insert(parts.end(), {*k, *v});
  return parts;
}
Parts GivenBiases(const optional<Tensor>& q, const optional<Tensor>& k, const optional<Tensor>& v) {
  return q.has_value() ? Given(*q, k, v) : Parts{};
}

struct Norm {
  optional<Tensor> q_weight, k_weight;  // [hd] each
  double eps = 0.0, weight_offset = 0.0;
};

coxswain_qk_norm_args NormArgs(const Tensor& qkv, const Rotation& rotation, const Norm& norm,
                               const Tensor& saved, const Tensor& rstd) {
  coxswain_qk_norm_args args = {};
  args.dtype = Type(qkv, "qkv");
  args.num_heads = rotation.num_heads;
  args.num_kv_heads = rotation.num_kv_heads;
  args.head_dim = qkv.size(1) / (rotation.num_heads + 2 * rotation.num_kv_heads);
  args.eps = static_cast<float>(norm.eps);
  args.weight_offset = static_cast<float>(norm.weight_offset);
  args.tokens = qkv.size(0);
  args.qkv = qkv.data_ptr();
  args.saved_qk = Address(saved, qkv, "saved_qk");
  args.rstd = Floats(rstd, qkv, "rstd");
  RequireSize(*norm.q_weight, args.head_dim, "q_norm");
  RequireSize(*norm.k_weight, args.head_dim, "k_norm");
  args.q_weight = Address(*norm.q_weight, qkv, "q_norm");
  args.k_weight = Address(*norm.k_weight, qkv, "k_norm");
  return args;
}

// One product where the weights lie behind one another, else one each.
void Products(const Tensor& qkv, const Tensor& x, const Parts& weights, const Parts& biases) {
  if (const optional<Tensor> joined = Joined(weights)) {
    const optional<Tensor> bias =
        biases.empty() ? optional<Tensor>() : optional<Tensor>(at::cat(biases));
    Product(qkv, x, *joined, {.transpose_b = true, .bias = bias});
    return;
  }
  int64_t column = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const optional<Tensor> bias = biases.empty() ? optional<Tensor>() : optional<Tensor>(biases[i]);
    Product(qkv.narrow(1, column, weights[i].size(0)), x, weights[i],
            {.transpose_b = true, .bias = bias});
    column += weights[i].size(0);
  }
}

// qkv, then what backward of the norm reads, empty without one.
std::tuple<Tensor, Tensor, Tensor> QkvProjection(
    const Tensor& x_given, const Tensor& q, const optional<Tensor>& k, const optional<Tensor>& v,
    const optional<Tensor>& q_bias, const optional<Tensor>& k_bias, const optional<Tensor>& v_bias,
    const optional<Tensor>& q_norm, const optional<Tensor>& k_norm, const Tensor& cos,
    const Tensor& sin, const Tensor& positions, int64_t num_heads, int64_t num_kv_heads, double eps,
    double weight_offset, bool interleaved) {
  const Tensor x = x_given.reshape({-1, x_given.size(-1)}).contiguous();
  const Parts weights = Given(q, k, v), biases = GivenBiases(q_bias, k_bias, v_bias);
  TORCH_CHECK_VALUE(biases.empty() || biases.size() == weights.size(), "coxswain: ", biases.size(),
                    " biases of ", weights.size(), " weights");
  int64_t width = 0;
  for (const Tensor& weight : weights) width += weight.size(0);
  Tensor qkv = EmptyTensor({x.size(0), width}, x);
  Products(qkv, x, weights, biases);
  const Rotation rotation = {cos, sin, positions, num_heads, num_kv_heads, interleaved};
  Tensor saved = None(x), rstd = EmptyFloats({0}, x);
  if (q_norm.has_value()) {
    const int64_t heads = num_heads + num_kv_heads;
    saved = EmptyTensor({x.size(0), heads * (width / (heads + num_kv_heads))}, x);
    rstd = EmptyFloats({x.size(0), heads}, x);
    COXSWAIN_LAUNCH(qk_norm_forward,
                    NormArgs(qkv, rotation, {q_norm, k_norm, eps, weight_offset}, saved, rstd),
                    qkv);
  }
  RotateInPlace(qkv, rotation, false);
  return {qkv, saved, rstd};
}

// The gradient of the products' output, then those of q_norm and k_norm.
std::tuple<Tensor, Tensor, Tensor> QkvRotationBackward(
    const Tensor& dqkv, const Tensor& saved, const Tensor& rstd, const optional<Tensor>& q_norm,
    const optional<Tensor>& k_norm, const Tensor& cos, const Tensor& sin, const Tensor& positions,
    int64_t num_heads, int64_t num_kv_heads, double weight_offset, bool interleaved,
    bool wants_norm) {
  Tensor gradient = Copy(dqkv);
  const Rotation rotation = {cos, sin, positions, num_heads, num_kv_heads, interleaved};
  RotateInPlace(gradient, rotation, true);
  if (!q_norm.has_value()) return {gradient, None(dqkv), None(dqkv)};
  coxswain_qk_norm_args args =
      NormArgs(gradient, rotation, {q_norm, k_norm, 0.0, weight_offset}, saved, rstd);
  Tensor dq = wants_norm ? ZeroFloats(q_norm->sizes(), gradient) : None(gradient);
  Tensor dk = wants_norm ? ZeroFloats(k_norm->sizes(), gradient) : None(gradient);
  args.dq_weight = wants_norm ? dq.data_ptr() : nullptr;
  args.dk_weight = wants_norm ? dk.data_ptr() : nullptr;
  COXSWAIN_LAUNCH_LENT(qk_norm_backward, args, gradient);
  return {gradient, dq.to(gradient.scalar_type()), dk.to(gradient.scalar_type())};
}

// dx, then the gradients of the weights and of the biases, those that are wanted; dqkv is that of
// the products' output.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> QkvProductsBackward(
    const Tensor& dqkv_given, const Tensor& x_given, const Tensor& q, const optional<Tensor>& k,
    const optional<Tensor>& v, bool wants_x, bool wants_weights, bool wants_biases) {
  const Tensor dqkv = dqkv_given.contiguous();
  const Tensor x = x_given.reshape({-1, x_given.size(-1)}).contiguous();
  const Parts weights = Given(q, k, v);
  Parts out;
  for (int i = 0; i < 7; ++i) out.push_back(None(x));
  const optional<Tensor> joined = Joined(weights);
  if (wants_x) out[0] = EmptyTensor(x_given.sizes(), x);
  if (wants_x && joined.has_value()) Product(out[0].view({-1, x.size(1)}), dqkv, *joined, {});
  int64_t column = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const Tensor part = dqkv.narrow(1, column, weights[i].size(0));
    column += weights[i].size(0);
    if (wants_x && !joined.has_value()) {
      Product(out[0].view({-1, x.size(1)}), part, weights[i], {.beta = i == 0 ? 0.0f : 1.0f});
    }
    if (wants_weights) out[1 + i] = WeightGradient(part, x);
    if (wants_biases) out[4 + i] = BiasGradient(part);
  }
  return {out[0], out[1], out[2], out[3], out[4], out[5], out[6]};
}

class QkvProjectionFunction : public torch::autograd::Function<QkvProjectionFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& q,
                               const optional<Tensor>& k, const optional<Tensor>& v,
                               const optional<Tensor>& q_bias, const optional<Tensor>& k_bias,
                               const optional<Tensor>& v_bias, const optional<Tensor>& q_norm,
                               const optional<Tensor>& k_norm, const Tensor& cos, const Tensor& sin,
                               const Tensor& positions, int64_t num_heads, int64_t num_kv_heads,
                               double eps, double weight_offset, bool interleaved) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [qkv, saved, rstd] =
        COXSWAIN_OP("qkv_projection", QkvProjection)
            .call(x, q, k, v, q_bias, k_bias, v_bias, q_norm, k_norm, cos, sin, positions,
                  num_heads, num_kv_heads, eps, weight_offset, interleaved);
    ctx->save_for_backward({x, q, OrNone(k), OrNone(v), OrNone(q_norm), OrNone(k_norm), cos, sin,
                            positions, saved, rstd});
    ctx->saved_data["num_heads"] = num_heads;
    ctx->saved_data["num_kv_heads"] = num_kv_heads;
    ctx->saved_data["weight_offset"] = weight_offset;
    ctx->saved_data["interleaved"] = interleaved;
    ctx->saved_data["x"] = x.requires_grad();
    ctx->saved_data["weights"] =
        q.requires_grad() || OrNone(k).requires_grad() || OrNone(v).requires_grad();
    ctx->saved_data["biases"] = OrNone(q_bias).requires_grad();
    ctx->saved_data["norm"] = OrNone(q_norm).requires_grad() || OrNone(k_norm).requires_grad();
    OnlyValues(ctx, {saved, rstd});
    return {qkv, saved, rstd};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    if (!gradients[0].defined()) return variable_list(17);
    const variable_list saved = ctx->get_saved_variables();
    auto& data = ctx->saved_data;
    const bool x = data["x"].toBool(), weights = data["weights"].toBool();
    const bool biases = data["biases"].toBool(), norm = data["norm"].toBool();
    const bool three = saved[2].defined();
    variable_list out(17);
    const auto [dqkv, dq_norm, dk_norm] =
        COXSWAIN_OP("qkv_rotation_backward", QkvRotationBackward)
            .call(gradients[0], saved[9], saved[10], Present(saved[4]), Present(saved[5]), saved[6],
                  saved[7], saved[8], data["num_heads"].toInt(), data["num_kv_heads"].toInt(),
                  data["weight_offset"].toDouble(), data["interleaved"].toBool(), norm);
    const auto [dx, dq, dk, dv, dq_bias, dk_bias, dv_bias] =
        COXSWAIN_OP("qkv_products_backward", QkvProductsBackward)
            .call(dqkv, saved[0], saved[1], Present(saved[2]), Present(saved[3]), x, weights,
                  biases);
    out[0] = Asked(dx, x);
    out[1] = Asked(dq, weights);
    out[2] = Asked(dk, weights && three);
    out[3] = Asked(dv, weights && three);
    out[4] = Asked(dq_bias, biases);
    out[5] = Asked(dk_bias, biases && three);
    out[6] = Asked(dv_bias, biases && three);
    out[7] = Asked(dq_norm, norm);
    out[8] = Asked(dk_norm, norm);
    return out;
  }
};

std::tuple<Tensor, Tensor, Tensor> Differentiable(
    const Tensor& x, const Tensor& q, const optional<Tensor>& k, const optional<Tensor>& v,
    const optional<Tensor>& q_bias, const optional<Tensor>& k_bias, const optional<Tensor>& v_bias,
    const optional<Tensor>& q_norm, const optional<Tensor>& k_norm, const Tensor& cos,
    const Tensor& sin, const Tensor& positions, int64_t num_heads, int64_t num_kv_heads, double eps,
    double weight_offset, bool interleaved) {
  const variable_list out = QkvProjectionFunction::apply(
      x, q, k, v, q_bias, k_bias, v_bias, q_norm, k_norm, cos, sin, positions, num_heads,
      num_kv_heads, eps, weight_offset, interleaved);
  return {out[0], out[1], out[2]};
}

std::tuple<Tensor, Tensor, Tensor> Autocast(
    const Tensor& x, const Tensor& q, const optional<Tensor>& k, const optional<Tensor>& v,
    const optional<Tensor>& q_bias, const optional<Tensor>& k_bias, const optional<Tensor>& v_bias,
    const optional<Tensor>& q_norm, const optional<Tensor>& k_norm, const Tensor& cos,
    const Tensor& sin, const Tensor& positions, int64_t num_heads, int64_t num_kv_heads, double eps,
    double weight_offset, bool interleaved) {
  const WithoutAutocast without;
  return COXSWAIN_OP("qkv_projection", QkvProjection)
      .call(Lowered(x), Lowered(q), Lowered(k), Lowered(v), Lowered(q_bias), Lowered(k_bias),
            Lowered(v_bias), Lowered(q_norm), Lowered(k_norm), cos, sin, positions, num_heads,
            num_kv_heads, eps, weight_offset, interleaved);
}

void Kernels(torch::Library& library) {
  library.impl("qkv_projection", QkvProjection);
  library.impl("qkv_rotation_backward", QkvRotationBackward);
  library.impl("qkv_products_backward", QkvProductsBackward);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(coxswain, library) {
  SayPythonModule(library);
  library.def(
      "qkv_projection(Tensor x, Tensor q, Tensor? k, Tensor? v, Tensor? q_bias, Tensor? k_bias, "
      "Tensor? v_bias, Tensor? q_norm, Tensor? k_norm, Tensor cos, Tensor sin, Tensor positions, "
      "int num_heads, int num_kv_heads, float eps, float weight_offset, bool interleaved) -> "
      "(Tensor, Tensor, Tensor)");
  library.def(
      "qkv_rotation_backward(Tensor dqkv, Tensor saved, Tensor rstd, Tensor? q_norm, Tensor? "
      "k_norm, Tensor cos, Tensor sin, Tensor positions, int num_heads, int num_kv_heads, float "
      "weight_offset, bool interleaved, bool wants_norm) -> (Tensor, Tensor, Tensor)");
  library.def(
      "qkv_products_backward(Tensor dqkv, Tensor x, Tensor q, Tensor? k, Tensor? v, bool wants_x, "
      "bool wants_weights, bool wants_biases) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, "
      "Tensor)");
}
TORCH_LIBRARY_IMPL(coxswain, CPU, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, CUDA, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, Autograd, library) { library.impl("qkv_projection", Differentiable); }
TORCH_LIBRARY_IMPL(coxswain, AutocastCUDA, library) { library.impl("qkv_projection", Autocast); }

}  // namespace coxswain::kernels::torch_ops::qkv_projection_op
