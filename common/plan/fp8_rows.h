// Linears of blocks whose products are in FP8: which these are, and the memory of their operands
// (kernels/quantize/fp8.h). An operand is its codes, then, from the next multiple of 256 bytes on,
// its scales.
#ifndef COXSWAIN_COMMON_PLAN_FP8_ROWS_H_
#define COXSWAIN_COMMON_PLAN_FP8_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/plan/activation_rows.h"
#include "common/plan/plan.h"
#include "kernels/quantize/quantized_formats.h"

namespace coxswain::plan {

// How the operands of a recipe share scales, and the formats of values and of gradients.
struct Fp8Formats {
  kernels::Fp8Scaling rows{};  // of activations and of gradients
  kernels::Fp8Scaling weights{};
  kernels::Fp8Format gradient{};  // of outputs; all else is E4M3
};
Fp8Formats FormatsOf(const Fp8& fp8);
const char* NameOf(Fp8Recipe recipe);  // "tensorwise"

// Widths that the products take are multiples of this.
inline constexpr int64_t kFp8Width = 16;

// Whether the products of a linear are in FP8: neither excluded nor of another width.
bool InFp8(const Plan& plan, const model::LinearOp& linear, int64_t layer);

// Whether backward reads a row of a layer in FP8 alone, so that layers share its memory.
bool IsKeptInFp8(const Plan& plan, const model::Row& row, int64_t layer);

// Names of rows: x of a trained linear, turned; the codes of a weight, straight and turned.
std::string KeptInputRow(const model::LinearOp& linear, int64_t layer);
std::string KeptWeightRow(const model::LinearOp& linear, int64_t layer);
std::string KeptTurnedWeightRow(const model::LinearOp& linear, int64_t layer);

int64_t Fp8CodeBytes(int64_t outer, int64_t k);  // where the scales begin
int64_t Fp8OperandBytes(kernels::Fp8Scaling scaling, int64_t outer, int64_t k);

// Adds the rows of operands: those kept by layers, and those that all linears use in turn: "fp8.x",
// "fp8.x_turned", "fp8.dy", "fp8.dy_turned", "fp8.weight".
std::vector<Buffer> Fp8Rows(const Plan& plan, int64_t tokens);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_FP8_ROWS_H_
