// Weights in four and eight bits; formats: nf4.h, int8_rows.h, mxfp4.h and fp8_blocks.h of kernels.
// None has a gradient.
#include "kernels/torch/registration.h"
#include "kernels/torch/tensors.h"

namespace coxswain::kernels::torch_ops::dequantize_op {
namespace {

// Codes of `shape`, two a byte, with the absmax of blocks of 64, or with the codes and constants of
// these.
Tensor Nf4Dequantize(const Tensor& codes, const optional<Tensor>& absmax,
                     const optional<Tensor>& absmax_codes, const optional<Tensor>& constants,
                     at::IntArrayRef shape, bool bfloat16) {
  Tensor out = at::empty(shape, codes.options().dtype(bfloat16 ? at::kBFloat16 : at::kFloat));
  TORCH_CHECK_VALUE(absmax.has_value() != (absmax_codes.has_value() && constants.has_value()),
                    "coxswain: absmax, or its codes and constants");
  const int64_t blocks = (out.numel() + COXSWAIN_NF4_BLOCK - 1) / COXSWAIN_NF4_BLOCK;
  coxswain_nf4_dequantize_args args = {};
  args.dtype = Type(out, "out");
  args.elements = out.numel();
  RequireSize(codes, (out.numel() + 1) / 2, "codes");
  args.codes = AddressOf<uint8_t>(codes, at::kByte, codes, "codes");
  if (absmax.has_value()) {
    RequireSize(*absmax, blocks, "absmax");
    args.absmax = Floats(*absmax, codes, "absmax");
  } else {
    RequireSize(*absmax_codes, blocks, "absmax_codes");
    RequireSize(*constants, 1 + (blocks + COXSWAIN_NF4_SCALE_GROUP - 1) / COXSWAIN_NF4_SCALE_GROUP,
                "constants");
    args.absmax_codes = AddressOf<uint8_t>(*absmax_codes, at::kByte, codes, "absmax_codes");
    args.constants = Floats(*constants, codes, "constants");
  }
  args.out = out.data_ptr();
  COXSWAIN_LAUNCH(nf4_dequantize, args, codes);
  return out;
}

std::tuple<Tensor, Tensor> Nf4Quantize(const Tensor& x_given) {
  const Tensor x = x_given.contiguous();
  const int64_t n = x.numel();
  Tensor codes = at::empty({(n + 1) / 2}, x.options().dtype(at::kByte));
  Tensor absmax = EmptyFloats({(n + COXSWAIN_NF4_BLOCK - 1) / COXSWAIN_NF4_BLOCK}, x);
  coxswain_nf4_quantize_args args = {};
  args.elements = n;
  args.in = Floats(x, x, "x");
  args.codes = codes.data_ptr<uint8_t>();
  args.absmax = absmax.data_ptr<float>();
  COXSWAIN_LAUNCH(nf4_quantize, args, x);
  return {codes, absmax};
}

Tensor Int8Dequantize(const Tensor& codes, const Tensor& absmax, bool bfloat16) {
  RequireDims(codes, 2, "codes");
  RequireSize(absmax, codes.size(0), "absmax");
  Tensor out =
      at::empty(codes.sizes(), codes.options().dtype(bfloat16 ? at::kBFloat16 : at::kFloat));
  coxswain_int8_dequantize_rows_args args = {};
  args.dtype = Type(out, "out");
  args.rows = codes.size(0);
  args.cols = codes.size(1);
  args.codes = AddressOf<int8_t>(codes, at::kChar, codes, "codes");
  args.absmax = Floats(absmax, codes, "absmax");
  args.out = out.data_ptr();
  COXSWAIN_LAUNCH(int8_dequantize_rows, args, codes);
  return out;
}

std::tuple<Tensor, Tensor> Int8Quantize(const Tensor& x_given) {
  const Tensor x = x_given.contiguous();
  RequireDims(x, 2, "x");
  Tensor codes = at::empty(x.sizes(), x.options().dtype(at::kChar));
  Tensor absmax = EmptyFloats({x.size(0)}, x);
  coxswain_int8_quantize_rows_args args = {};
  args.rows = x.size(0);
  args.cols = x.size(1);
  args.in = Floats(x, x, "x");
  args.codes = codes.data_ptr<int8_t>();
  args.absmax = absmax.data_ptr<float>();
  COXSWAIN_LAUNCH(int8_quantize_rows, args, x);
  return {codes, absmax};
}

// Codes [..., K / 2], two a byte, with scales [..., K / 32]: [..., K].
Tensor Mxfp4Dequantize(const Tensor& codes, const Tensor& scales, bool bfloat16) {
  TORCH_CHECK_VALUE(codes.dim() > 0, "coxswain: codes has no dimension");
  std::vector<int64_t> shape = codes.sizes().vec();
  shape.back() *= 2;
  TORCH_CHECK_VALUE(shape.back() % COXSWAIN_MXFP4_BLOCK == 0, "coxswain: codes has rows of ",
                    shape.back(), " elements, must be a multiple of ", COXSWAIN_MXFP4_BLOCK);
  Tensor out = at::empty(shape, codes.options().dtype(bfloat16 ? at::kBFloat16 : at::kFloat));
  RequireSize(scales, out.numel() / COXSWAIN_MXFP4_BLOCK, "scales");
  coxswain_mxfp4_dequantize_args args = {};
  args.dtype = Type(out, "out");
  args.elements = out.numel();
  args.codes = AddressOf<uint8_t>(codes, at::kByte, codes, "codes");
  args.scales = AddressOf<uint8_t>(scales, at::kByte, codes, "scales");
  args.out = out.data_ptr();
  COXSWAIN_LAUNCH(mxfp4_dequantize, args, codes);
  return out;
}

std::tuple<Tensor, Tensor> Mxfp4Quantize(const Tensor& x_given) {
  const Tensor x = x_given.contiguous();
  TORCH_CHECK_VALUE(x.dim() > 0, "coxswain: x has no dimension");
  TORCH_CHECK_VALUE(x.size(-1) % COXSWAIN_MXFP4_BLOCK == 0, "coxswain: x has rows of ", x.size(-1),
                    " elements, must be a multiple of ", COXSWAIN_MXFP4_BLOCK);
  const auto bytes = x.options().dtype(at::kByte);
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = x.size(-1) / 2;
  Tensor codes = at::empty(shape, bytes);
  shape.back() = x.size(-1) / COXSWAIN_MXFP4_BLOCK;
  Tensor scales = at::empty(shape, bytes);
  coxswain_mxfp4_quantize_args args = {};
  args.elements = x.numel();
  args.in = Floats(x, x, "x");
  args.codes = codes.data_ptr<uint8_t>();
  args.scales = scales.data_ptr<uint8_t>();
  COXSWAIN_LAUNCH(mxfp4_quantize, args, x);
  return {codes, scales};
}

// The bytes of float8_e4m3fn [N, K] with scales [ceil(N / 128), ceil(K / 128)].
Tensor Fp8BlocksDequantize(const Tensor& codes, const Tensor& scales, bool bfloat16) {
  RequireDims(codes, 2, "codes");
  const auto blocks = [](int64_t extent) {
    return (extent + COXSWAIN_FP8_BLOCK - 1) / COXSWAIN_FP8_BLOCK;
  };
  RequireSize(scales, blocks(codes.size(0)) * blocks(codes.size(1)), "scales");
  Tensor out =
      at::empty(codes.sizes(), codes.options().dtype(bfloat16 ? at::kBFloat16 : at::kFloat));
  coxswain_fp8_blocks_dequantize_args args = {};
  args.dtype = Type(out, "out");
  args.rows = codes.size(0);
  args.cols = codes.size(1);
  args.codes = AddressOf<uint8_t>(codes, at::kByte, codes, "codes");
  args.scales = Floats(scales, codes, "scales");
  args.out = out.data_ptr();
  COXSWAIN_LAUNCH(fp8_blocks_dequantize, args, codes);
  return out;
}

void Kernels(torch::Library& library) {
  library.impl("nf4_dequantize", Nf4Dequantize);
  library.impl("nf4_quantize", Nf4Quantize);
  library.impl("int8_dequantize", Int8Dequantize);
  library.impl("int8_quantize", Int8Quantize);
  library.impl("mxfp4_dequantize", Mxfp4Dequantize);
  library.impl("mxfp4_quantize", Mxfp4Quantize);
  library.impl("fp8_blocks_dequantize", Fp8BlocksDequantize);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(coxswain, library) {
  SayPythonModule(library);
  library.def(
      "nf4_dequantize(Tensor codes, Tensor? absmax, Tensor? absmax_codes, Tensor? constants, int[] "
      "shape, bool bfloat16) -> Tensor");
  library.def("nf4_quantize(Tensor x) -> (Tensor, Tensor)");
  library.def("int8_dequantize(Tensor codes, Tensor absmax, bool bfloat16) -> Tensor");
  library.def("int8_quantize(Tensor x) -> (Tensor, Tensor)");
  library.def("mxfp4_dequantize(Tensor codes, Tensor scales, bool bfloat16) -> Tensor");
  library.def("mxfp4_quantize(Tensor x) -> (Tensor, Tensor)");
  library.def("fp8_blocks_dequantize(Tensor codes, Tensor scales, bool bfloat16) -> Tensor");
}
TORCH_LIBRARY_IMPL(coxswain, CPU, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, CUDA, library) { Kernels(library); }

}  // namespace coxswain::kernels::torch_ops::dequantize_op
