#include "worker/engine/ops/dense.h"

#include "kernels/products/gemm.h"
#include "kernels/products/summed_product.h"
#include "worker/engine/ops/gradient_sum.h"

namespace coxswain::engine {
namespace {

int64_t OutStride(const Dense& dense) {
  return dense.out_stride == 0 ? dense.out : dense.out_stride;
}

}  // namespace

void DenseForward(const Sweep& sweep, const Dense& dense, const DenseForwardArgs& args) {
  kernels::GemmArgs gemm;
  gemm.spec.dtype = gemm.spec.output_dtype = sweep.model.compute_dtype;
  gemm.spec.transpose_b = true;
  gemm.m = dense.rows;
  gemm.n = dense.out;
  gemm.k = dense.in;
  gemm.alpha = dense.scale;
  gemm.a = args.x;
  gemm.lda = dense.in;
  gemm.b = dense.weight->value;
  gemm.ldb = dense.in;
  gemm.beta = args.accumulate ? 1.0f : 0.0f;
  gemm.c = args.y;
  gemm.addend = args.addend;
  gemm.ldc = OutStride(dense);
  gemm.bias = args.bias;
  gemm.workspace = sweep.buffers.scratch;
  kernels::Gemm(gemm, sweep.stream);
}

void DenseInputGradient(const Sweep& sweep, const Dense& dense,
                        const DenseInputGradientArgs& args) {
  kernels::GemmArgs gemm;
  gemm.spec.dtype = gemm.spec.output_dtype = sweep.model.compute_dtype;
  gemm.m = dense.rows;
  gemm.n = dense.in;
  gemm.k = dense.out;
  gemm.alpha = dense.scale;
  gemm.a = args.dy;
  gemm.lda = OutStride(dense);
  gemm.b = dense.weight->value;
  gemm.ldb = dense.in;
  gemm.beta = args.accumulate ? 1.0f : 0.0f;
  gemm.c = args.dx;
  gemm.ldc = dense.in;
  gemm.workspace = sweep.buffers.scratch;
  kernels::Gemm(gemm, sweep.stream);
}

void DenseWeightGradient(const Sweep& sweep, const Dense& dense,
                         const DenseWeightGradientArgs& args) {
  kernels::GemmArgs gemm;
  gemm.spec.dtype = sweep.model.compute_dtype;
  gemm.spec.output_dtype = dense.weight->gradient_dtype;
  gemm.spec.transpose_a = true;
  gemm.m = dense.out;
  gemm.n = dense.in;
  gemm.k = dense.rows;
  gemm.alpha = dense.scale;
  gemm.a = args.dy;
  gemm.lda = OutStride(dense);
  gemm.b = args.x;
  gemm.ldb = dense.in;
  gemm.beta = args.accumulate ? 1.0f : 0.0f;
  gemm.c = dense.weight->gradient;
  gemm.ldc = dense.in;
  gemm.workspace = sweep.buffers.scratch;
  if (!TakesTerms(sweep, *dense.weight)) return kernels::Gemm(gemm, sweep.stream);
  kernels::SummedProduct({.product = gemm,
                          .sum = SumOf(sweep, *dense.weight, args.part),
                          .term = sweep.buffers.gradient_term},
                         sweep.stream);
}

bool FindsGradient(const Sweep& sweep, const Tensor& weight) {
  return !sweep.first && !weight.gradient_slotted;
}

}  // namespace coxswain::engine
