// The activations of a block as rows of the buffer table, derived from its ops: what each keeps for
// backward. A recompute level is sharing of rows between layers, decided here.
#ifndef COXSWAIN_COMMON_PLAN_BUFFERS_ACTIVATION_ROWS_H_
#define COXSWAIN_COMMON_PLAN_BUFFERS_ACTIVATION_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/model/op_rows.h"
#include "common/plan/plan.h"

namespace coxswain::plan {

using model::RowType;

// What it takes to have a row again.
enum class Again {
  kKept,         // at every level: what a router chose, and what its adapter made for that
  kInFp8,        // not at all: backward reads its codes, which are kept (fp8_rows.h)
  kNever,        // below recompute "block"
  kElementwise,  // a norm of the stream, an activation or the rows of experts: from "norm_swiglu"
                 // on
  kExpertOut,    // what experts put out: from "expert_out" on
  kProduct,      // gate and up, of experts too: from "ffn" on
};

// Of what an op writes; of its statistics: kNever.
Again AgainOf(const model::PlainOp& op);

// Whether each layer computes such rows again before its backward, in memory that all share. False
// with "block": there a segment of layers computes all its rows again.
bool ComputesAgain(const Plan& plan, Again again);

// Whether backward reads a row of a layer in FP8 alone, so that layers share its memory.
bool IsKeptInFp8(const Plan& plan, const model::Row& row, int64_t layer);

struct ActivationRow {
  model::Row row;
  int64_t width = 0;  // elements of a token
  RowType type = RowType::kCompute;
  Again again = Again::kNever;
  int64_t fixed = 0;  // elements beside those of tokens
};

// What the ops of a block write that is the layer's own, the stream that enters it first; then
// products of adapters (LinearAdapterRow) and outputs before the scale of DoRA.
std::vector<ActivationRow> ActivationRows(const Plan& plan, int64_t layer);

// The layer whose memory a row lives in: its own when the row is kept for backward, else that of
// the layer whose row it shares and which is computed again. kSharedByLayers: the memory of rows
// that backward reads in FP8 alone. Of other layers, whose blocks differ, a row of that name may be
// kept, which these must not overwrite.
int64_t ActivationOwner(const Plan& plan, const ActivationRow& row);

// "layer3.qkv", or the name alone.
std::string BufferName(const model::Row& row);

// Before the scale of DoRA: "qkv_u" and so on.
model::Row UnscaledRow(const model::LinearOp& linear, int64_t layer);

// Of the adapters of all linears of a block: [tokens, rank x adapters].
model::Row LinearAdapterRow(int64_t layer);

// Of the adapters of a stack of experts: [pairs of token and expert, rank].
model::Row ExpertAdapterRow(const model::GroupedLinearOp& experts, int64_t layer);

// Of the adapter of a router: [tokens, rank].
model::Row RouterAdapterRow(int64_t layer);

// Output columns of all linears that DoRA scales, layer after layer.
int64_t DoraColumns(const Plan& plan);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_BUFFERS_ACTIVATION_ROWS_H_
