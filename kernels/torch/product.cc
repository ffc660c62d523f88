#include "kernels/torch/product.h"

namespace coxswain::kernels::torch_ops {
namespace {

void RequireMatrix(const Tensor& matrix, const char* name) {
  RequireDims(matrix, 2, name);
  TORCH_CHECK_VALUE(matrix.stride(1) == 1 || matrix.size(1) <= 1 || matrix.numel() == 0,
                    "coxswain: columns of ", name, " lie apart");
}

int64_t Stride(const Tensor& matrix) { return std::max(matrix.stride(0), matrix.size(1)); }

int64_t GemmWorkspaceBytes(const Tensor& like) {
  return FunctionOf(like, &coxswain_gemm_workspace_bytes, "coxswain_gemm_workspace_bytes")();
}

}  // namespace

void Product(const Tensor& out, const Tensor& a, const Tensor& b, const ProductOptions& options) {
  RequireMatrix(out, "the product");
  RequireMatrix(a, "the left factor");
  RequireMatrix(b, "the right factor");
  coxswain_gemm_args args = {};
  args.dtype = Type(a, "the left factor");
  args.output_dtype = Type(out, "the product");
  args.transpose_a = options.transpose_a;
  args.transpose_b = options.transpose_b;
  args.m = out.size(0);
  args.n = out.size(1);
  args.k = a.size(options.transpose_a ? 0 : 1);
  const bool fits = a.size(options.transpose_a ? 1 : 0) == args.m &&
                    b.size(options.transpose_b ? 1 : 0) == args.k &&
                    b.size(options.transpose_b ? 0 : 1) == args.n;
  TORCH_CHECK_VALUE(fits, "coxswain: a product of ", a.sizes(), " and ", b.sizes(), " is not ",
                    out.sizes());
  TORCH_CHECK_TYPE(a.scalar_type() == b.scalar_type(), "coxswain: a product of ", a.scalar_type(),
                   " and ", b.scalar_type());
  args.alpha = 1.0f;
  args.beta = options.beta;
  args.a = a.data_ptr();
  args.b = b.data_ptr();
  args.c = out.data_ptr();
  if (options.bias.has_value()) {
    RequireSize(*options.bias, args.n, "bias");
    args.bias = Address(*options.bias, out, "bias");
  }
  args.lda = Stride(a);
  args.ldb = Stride(b);
  args.ldc = Stride(out);
  CurrentStream(out);  // the device is chosen before its library is asked
  const Tensor scratch = Scratch(GemmWorkspaceBytes(out), out);
  args.workspace = {scratch.data_ptr(), scratch.numel()};
  COXSWAIN_LAUNCH(gemm, args, out);
}

optional<Tensor> Joined(at::TensorList parts) {
  const Tensor& first = parts[0];
  int64_t rows = 0;
  const char* end = static_cast<const char*>(first.data_ptr());
  for (const Tensor& part : parts) {
    const bool behind =
        part.is_contiguous() && part.dim() == 2 && part.numel() > 0 &&
        part.size(1) == first.size(1) && part.data_ptr() == end &&
        part.storage().unsafeGetStorageImpl() == first.storage().unsafeGetStorageImpl();
    if (!behind) return {};
    end += part.nbytes();
    rows += part.size(0);
  }
  return first.as_strided({rows, first.size(1)}, {first.size(1), 1});
}

Tensor Linear(const Tensor& x, const Tensor& weight, const optional<Tensor>& bias) {
  Tensor y = EmptyTensor({x.size(0), weight.size(0)}, x);
  Product(y, x, weight, {.transpose_b = true, .bias = bias});
  return y;
}

Tensor WeightGradient(const Tensor& dy, const Tensor& x) {
  Tensor dweight = EmptyTensor({dy.size(1), x.size(1)}, x);
  Product(dweight, dy, x, {.transpose_a = true});
  return dweight;
}

Tensor BiasGradient(const Tensor& dy) {
  Tensor dbias = ZeroFloats({dy.size(1)}, dy);
  coxswain_bias_args args = {};
  args.dtype = Type(dy, "dy");
  args.rows = dy.size(0);
  args.columns = dy.size(1);
  args.ldy = Stride(dy);
  args.dy = dy.data_ptr();
  args.dbias = dbias.data_ptr();
  COXSWAIN_LAUNCH_LENT(bias_backward, args, dy);
  return dbias.to(dy.scalar_type());
}

}  // namespace coxswain::kernels::torch_ops
