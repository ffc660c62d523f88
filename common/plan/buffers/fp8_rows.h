// The memory of the operands of products in FP8 (kernels/quantize/fp8.h). An operand is its codes,
// then, from the next multiple of 256 bytes on, its scales. The weights of experts are one operand:
// their codes behind one another, then a scale of each.
#ifndef COXSWAIN_COMMON_PLAN_BUFFERS_FP8_ROWS_H_
#define COXSWAIN_COMMON_PLAN_BUFFERS_FP8_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/plan/fp8_linears.h"
#include "common/plan/plan.h"
#include "kernels/quantize/quantized_formats.h"

namespace coxswain::plan {

// Names of rows: x of a trained linear, turned; the codes of a weight, straight and turned.
std::string KeptInputRow(const model::LinearOp& linear, int64_t layer);
std::string KeptWeightRow(const model::LinearOp& linear, int64_t layer);
std::string KeptTurnedWeightRow(const model::LinearOp& linear, int64_t layer);
std::string KeptWeightRow(const model::GroupedLinearOp& experts, int64_t layer);
std::string KeptTurnedWeightRow(const model::GroupedLinearOp& experts, int64_t layer);

int64_t Fp8CodeBytes(int64_t outer, int64_t k);  // where the scales begin
int64_t Fp8OperandBytes(kernels::Fp8Scaling scaling, int64_t outer, int64_t k);
// Of so many matrices [outer, k], each with one scale.
int64_t Fp8StackBytes(int64_t matrices, int64_t outer, int64_t k);

// Adds the rows of operands: those kept by layers, and those that all linears use in turn: "fp8.x",
// "fp8.x_turned", "fp8.dy", "fp8.dy_turned", "fp8.weight"; and those of codes that are gathered
// (fp8_gather.h) and of amaxes that are known (fp8_amaxes.h).
std::vector<Buffer> Fp8Rows(const Plan& plan, int64_t tokens);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_BUFFERS_FP8_ROWS_H_
