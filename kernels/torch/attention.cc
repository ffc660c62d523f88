// Causal attention of packed documents; formulas: kernels/attention/attention.h. q, k and v are
// heads of one tensor [T, (nq + nkv) hd + nkv vd], or three. Sinks are [nq].
#include <string>

#include "kernels/torch/registration.h"
#include "kernels/torch/tensors.h"

namespace coxswain::kernels::torch_ops::attention_op {
namespace {

// dense: every document has max_length tokens.
struct Shape {
  int64_t num_heads = 0, num_kv_heads = 0, max_length = 0;
  bool dense = false;
  double scale = 0.0, softcap = 0.0;
  int64_t window = 0;
  bool deterministic = true;
  int64_t value_dim = 0;  // vd; 0: hd
};

struct Heads {
  void *q = nullptr, *k = nullptr, *v = nullptr;
};

Heads Packed(const Tensor& qkv, const Shape& shape, int64_t head_dim) {
  char* data = static_cast<char*>(qkv.data_ptr());
  const int64_t head = head_dim * static_cast<int64_t>(qkv.element_size());
  return {data, data + shape.num_heads * head,
          data + (shape.num_heads + shape.num_kv_heads) * head};
}

// `sinks` are contiguous.
coxswain_attention_args ArgsOf(const Tensor& first, const Tensor& cu_seqlens, const Shape& shape,
                               int64_t head_dim, const optional<Tensor>& sinks) {
  coxswain_attention_args args = {};
  args.dtype = Type(first, "q");
  args.deterministic = shape.deterministic;
  args.num_heads = shape.num_heads;
  args.num_kv_heads = shape.num_kv_heads;
  args.head_dim = head_dim;
  args.value_dim = shape.value_dim > 0 ? shape.value_dim : head_dim;
  args.window = shape.window;
  args.scale = static_cast<float>(shape.scale);
  args.softcap = static_cast<float>(shape.softcap);
  args.tokens = first.size(0);
  args.documents = cu_seqlens.numel() - 1;
  args.max_length = shape.max_length;
  args.dense = shape.dense;
  args.cu_seqlens = Ints(cu_seqlens, first, "cu_seqlens");
  if (sinks.has_value()) {
    RequireSize(*sinks, shape.num_heads, "sinks");
    args.sink_dtype = Type(*sinks, "sinks");
    args.sinks = Address(*sinks, sinks->scalar_type(), first, "sinks");
  }
  return args;
}

optional<Tensor> Contiguous(const optional<Tensor>& tensor) {
  return tensor.has_value() ? optional<Tensor>(tensor->contiguous()) : tensor;
}

void Give(coxswain_attention_args* args, const Heads& heads) {
  args->q = heads.q;
  args->k = heads.k;
  args->v = heads.v;
}

std::tuple<Tensor, Tensor> Forward(coxswain_attention_args args, const Tensor& first) {
  Tensor out = EmptyTensor({args.tokens, args.num_heads * args.value_dim}, first);
  Tensor lse = EmptyFloats({args.num_heads * args.tokens}, first);
  args.out = out.data_ptr();
  args.lse = lse.data_ptr<float>();
  COXSWAIN_LAUNCH(prepare_attention, args, first);
  COXSWAIN_LAUNCH_LENT(attention_forward, args, first);
  return {out, lse};
}

// Gives the gradient of the sinks.
Tensor Backward(coxswain_attention_args args, const Tensor& dout_given, const Tensor& out,
                const Tensor& lse, const Heads& gradients, const Tensor& first,
                const optional<Tensor>& sinks) {
  const Tensor dout = dout_given.contiguous();
  args.out = Address(out, first, "out");
  args.lse = Floats(lse, first, "lse");
  args.dout = Address(dout, first, "dout");
  args.dq = gradients.q;
  args.dk = gradients.k;
  args.dv = gradients.v;
  const Tensor dsinks = sinks.has_value() ? ZeroFloats({args.num_heads}, first) : None(first);
  if (sinks.has_value()) args.dsinks = dsinks.data_ptr<float>();
  COXSWAIN_LAUNCH_LENT(attention_backward, args, first);
  return sinks.has_value() ? dsinks.to(sinks->scalar_type()) : dsinks;
}

int64_t HeadDim(const Tensor& qkv, const Shape& shape) {
  RequireDims(qkv, 2, "qkv");
  const bool narrower = shape.value_dim > 0;  // or wider values
  const int64_t heads = shape.num_heads + (narrower ? 1 : 2) * shape.num_kv_heads;
  const int64_t columns = qkv.size(1) - (narrower ? shape.num_kv_heads * shape.value_dim : 0);
  TORCH_CHECK_VALUE(heads > 0 && columns > 0 && columns % heads == 0, "coxswain: rows of ",
                    qkv.size(1), " are not of ", shape.num_heads, " and ", shape.num_kv_heads,
                    " heads", narrower ? ", with values of " : "",
                    narrower ? std::to_string(shape.value_dim) : "");
  return columns / heads;
}

std::tuple<Tensor, Tensor> PackedAttention(const Tensor& qkv_given, const Tensor& cu_seqlens,
                                           int64_t max_length, bool dense, int64_t num_heads,
                                           int64_t num_kv_heads, double scale, int64_t window,
                                           double softcap, bool deterministic, int64_t value_dim,
                                           const optional<Tensor>& sinks_given) {
  const Tensor qkv = qkv_given.contiguous();
  const optional<Tensor> sinks = Contiguous(sinks_given);
  const Shape shape = {num_heads, num_kv_heads, max_length,    dense,    scale,
                       softcap,   window,       deterministic, value_dim};
  coxswain_attention_args args = ArgsOf(qkv, cu_seqlens, shape, HeadDim(qkv, shape), sinks);
  Give(&args, Packed(qkv, shape, args.head_dim));
  return Forward(args, qkv);
}

std::tuple<Tensor, Tensor> PackedAttentionBackward(
    const Tensor& dout, const Tensor& qkv, const Tensor& cu_seqlens, const Tensor& out,
    const Tensor& lse, int64_t max_length, bool dense, int64_t num_heads, int64_t num_kv_heads,
    double scale, int64_t window, double softcap, bool deterministic, int64_t value_dim,
    const optional<Tensor>& sinks_given) {
  const optional<Tensor> sinks = Contiguous(sinks_given);
  const Shape shape = {num_heads, num_kv_heads, max_length,    dense,    scale,
                       softcap,   window,       deterministic, value_dim};
  Address(qkv, qkv, "qkv");
  coxswain_attention_args args = ArgsOf(qkv, cu_seqlens, shape, HeadDim(qkv, shape), sinks);
  Give(&args, Packed(qkv, shape, args.head_dim));
  Tensor dqkv = EmptyLike(qkv);
  const Tensor dsinks =
      Backward(args, dout, out, lse, Packed(dqkv, shape, args.head_dim), qkv, sinks);
  return {dqkv, dsinks};
}

coxswain_attention_args SeparateArgs(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& cu_seqlens, Shape shape,
                                     const optional<Tensor>& sinks) {
  RequireDims(q, 3, "q");
  RequireDims(k, 3, "k");
  RequireDims(v, 3, "v");
  TORCH_CHECK_VALUE(k.size(0) == q.size(0) && k.size(2) == q.size(2), "coxswain: q is ", q.sizes(),
                    ", k ", k.sizes());
  TORCH_CHECK_VALUE(v.size(0) == k.size(0) && v.size(1) == k.size(1), "coxswain: k is ", k.sizes(),
                    ", v ", v.sizes());
  shape.num_heads = q.size(1);
  shape.num_kv_heads = k.size(1);
  shape.value_dim = v.size(2);
  coxswain_attention_args args = ArgsOf(q, cu_seqlens, shape, q.size(2), sinks);
  args.q_row = q.size(1) * q.size(2);
  args.kv_row = k.size(1) * k.size(2);
  args.v_row = v.size(1) * v.size(2);
  Give(&args, {Address(q, q, "q"), Address(k, q, "k"), Address(v, q, "v")});
  return args;
}

std::tuple<Tensor, Tensor> Attention(const Tensor& q_given, const Tensor& k_given,
                                     const Tensor& v_given, const Tensor& cu_seqlens,
                                     int64_t max_length, bool dense, double scale, int64_t window,
                                     double softcap, bool deterministic,
                                     const optional<Tensor>& sinks_given) {
  const Tensor q = q_given.contiguous(), k = k_given.contiguous(), v = v_given.contiguous();
  const optional<Tensor> sinks = Contiguous(sinks_given);
  const Shape shape = {0, 0, max_length, dense, scale, softcap, window, deterministic};
  auto [out, lse] = Forward(SeparateArgs(q, k, v, cu_seqlens, shape, sinks), q);
  return {out.view({q.size(0), q.size(1), v.size(2)}), lse};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> AttentionBackward(
    const Tensor& dout, const Tensor& q_given, const Tensor& k_given, const Tensor& v_given,
    const Tensor& cu_seqlens, const Tensor& out, const Tensor& lse, int64_t max_length, bool dense,
    double scale, int64_t window, double softcap, bool deterministic,
    const optional<Tensor>& sinks_given) {
  const Tensor q = q_given.contiguous(), k = k_given.contiguous(), v = v_given.contiguous();
  const optional<Tensor> sinks = Contiguous(sinks_given);
  const Shape shape = {0, 0, max_length, dense, scale, softcap, window, deterministic};
  Tensor dq = EmptyLike(q), dk = EmptyLike(k), dv = EmptyLike(v);
  const Tensor dsinks = Backward(SeparateArgs(q, k, v, cu_seqlens, shape, sinks), dout, out, lse,
                                 {dq.data_ptr(), dk.data_ptr(), dv.data_ptr()}, q, sinks);
  return {dq, dk, dv, dsinks};
}

class PackedAttentionFunction : public torch::autograd::Function<PackedAttentionFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& qkv, const Tensor& cu_seqlens,
                               int64_t max_length, bool dense, int64_t num_heads,
                               int64_t num_kv_heads, double scale, int64_t window, double softcap,
                               bool deterministic, int64_t value_dim,
                               const optional<Tensor>& sinks) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, lse] = COXSWAIN_OP("packed_attention", PackedAttention)
                                .call(qkv, cu_seqlens, max_length, dense, num_heads, num_kv_heads,
                                      scale, window, softcap, deterministic, value_dim, sinks);
    ctx->save_for_backward({qkv.contiguous(), cu_seqlens, out, lse, OrNone(sinks)});
    ctx->saved_data["value_dim"] = value_dim;
    ctx->saved_data["max_length"] = max_length;
    ctx->saved_data["dense"] = dense;
    ctx->saved_data["num_heads"] = num_heads;
    ctx->saved_data["num_kv_heads"] = num_kv_heads;
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["window"] = window;
    ctx->saved_data["softcap"] = softcap;
    ctx->saved_data["deterministic"] = deterministic;
    OnlyValues(ctx, {lse});
    return {out, lse};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    if (!gradients[0].defined()) return variable_list(12);
    const variable_list saved = ctx->get_saved_variables();
    auto& data = ctx->saved_data;
    variable_list out(12);
    std::tie(out[0], out[11]) =
        COXSWAIN_OP("packed_attention_backward", PackedAttentionBackward)
            .call(gradients[0], saved[0], saved[1], saved[2], saved[3], data["max_length"].toInt(),
                  data["dense"].toBool(), data["num_heads"].toInt(), data["num_kv_heads"].toInt(),
                  data["scale"].toDouble(), data["window"].toInt(), data["softcap"].toDouble(),
                  data["deterministic"].toBool(), data["value_dim"].toInt(), Present(saved[4]));
    out[11] = Asked(out[11], saved[4].defined());
    return out;
  }
};

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& q, const Tensor& k,
                               const Tensor& v, const Tensor& cu_seqlens, int64_t max_length,
                               bool dense, double scale, int64_t window, double softcap,
                               bool deterministic, const optional<Tensor>& sinks) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, lse] = COXSWAIN_OP("attention", Attention)
                                .call(q, k, v, cu_seqlens, max_length, dense, scale, window,
                                      softcap, deterministic, sinks);
    ctx->save_for_backward({q, k, v, cu_seqlens, out, lse, OrNone(sinks)});
    ctx->saved_data["max_length"] = max_length;
    ctx->saved_data["dense"] = dense;
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["window"] = window;
    ctx->saved_data["softcap"] = softcap;
    ctx->saved_data["deterministic"] = deterministic;
    OnlyValues(ctx, {lse});
    return {out, lse};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    if (!gradients[0].defined()) return variable_list(11);
    const variable_list saved = ctx->get_saved_variables();
    auto& data = ctx->saved_data;
    variable_list out(11);
    std::tie(out[0], out[1], out[2], out[10]) =
        COXSWAIN_OP("attention_backward", AttentionBackward)
            .call(gradients[0], saved[0], saved[1], saved[2], saved[3], saved[4], saved[5],
                  data["max_length"].toInt(), data["dense"].toBool(), data["scale"].toDouble(),
                  data["window"].toInt(), data["softcap"].toDouble(),
                  data["deterministic"].toBool(), Present(saved[6]));
    out[10] = Asked(out[10], saved[6].defined());
    return out;
  }
};

std::tuple<Tensor, Tensor> DifferentiablePacked(const Tensor& qkv, const Tensor& cu_seqlens,
                                                int64_t max_length, bool dense, int64_t num_heads,
                                                int64_t num_kv_heads, double scale, int64_t window,
                                                double softcap, bool deterministic,
                                                int64_t value_dim, const optional<Tensor>& sinks) {
  const variable_list out =
      PackedAttentionFunction::apply(qkv, cu_seqlens, max_length, dense, num_heads, num_kv_heads,
                                     scale, window, softcap, deterministic, value_dim, sinks);
  return {out[0], out[1]};
}

std::tuple<Tensor, Tensor> Differentiable(const Tensor& q, const Tensor& k, const Tensor& v,
                                          const Tensor& cu_seqlens, int64_t max_length, bool dense,
                                          double scale, int64_t window, double softcap,
                                          bool deterministic, const optional<Tensor>& sinks) {
  const variable_list out = AttentionFunction::apply(q, k, v, cu_seqlens, max_length, dense, scale,
                                                     window, softcap, deterministic, sinks);
  return {out[0], out[1]};
}

void Kernels(torch::Library& library) {
  library.impl("packed_attention", PackedAttention);
  library.impl("packed_attention_backward", PackedAttentionBackward);
  library.impl("attention", Attention);
  library.impl("attention_backward", AttentionBackward);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(coxswain, library) {
  SayPythonModule(library);
  library.def(
      "packed_attention(Tensor qkv, Tensor cu_seqlens, int max_length, bool dense, int num_heads, "
      "int num_kv_heads, float scale, int window, float softcap, bool deterministic, int "
      "value_dim=0, Tensor? sinks=None) -> (Tensor, Tensor)");
  library.def(
      "packed_attention_backward(Tensor dout, Tensor qkv, Tensor cu_seqlens, Tensor out, Tensor "
      "lse, int max_length, bool dense, int num_heads, int num_kv_heads, float scale, int window, "
      "float softcap, bool deterministic, int value_dim=0, Tensor? sinks=None) -> (Tensor, "
      "Tensor)");
  library.def(
      "attention(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens, int max_length, bool dense, "
      "float scale, int window, float softcap, bool deterministic, Tensor? sinks=None) -> (Tensor, "
      "Tensor)");
  library.def(
      "attention_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor cu_seqlens, Tensor "
      "out, Tensor lse, int max_length, bool dense, float scale, int window, float softcap, bool "
      "deterministic, Tensor? sinks=None) -> (Tensor, Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(coxswain, CPU, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, CUDA, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, Autograd, library) {
  library.impl("packed_attention", DifferentiablePacked);
  library.impl("attention", Differentiable);
}

}  // namespace coxswain::kernels::torch_ops::attention_op
