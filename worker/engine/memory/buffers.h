// Views of the plan's buffers (table in README.md), typed and named.
#ifndef COXSWAIN_WORKER_ENGINE_MEMORY_BUFFERS_H_
#define COXSWAIN_WORKER_ENGINE_MEMORY_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/buffers/buffer_rows.h"
#include "common/plan/plan.h"
#include "kernels/dtype.h"
#include "kernels/loss/document_loss.h"
#include "kernels/loss/policy_loss.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/adamw_8bit.h"
#include "kernels/optimizer/global_norm.h"
#include "worker/engine/memory/arena.h"
#include "worker/engine/memory/model.h"

namespace coxswain::engine {

// Device scalars of a step.
struct Scalars {
  kernels::OptimizerScalars optimizer;
  // Summed over the ranks together, as doubles:
  kernels::NormSums norm_sums;
  double global_loss_sum = 0;

  double norm = 0;
  double loss_sum = 0;       // of this rank: objective when training, nll when evaluating
  float gradient_scale = 0;  // 1 / loss denominator
  uint32_t step = 0;         // keys dropout and stochastic rounding
  // Of this rank, when evaluating: targets that are the first maximum of their logits.
  double hits = 0;
  float router_bias_rate = 0;  // of Plan; 0 while warming up
  // Of a loss of documents.
  kernels::DocumentScalars documents;
  kernels::PreferenceSums preference;  // of this rank
  kernels::PolicySums policy;          // of a policy loss, of this rank
};
static_assert(sizeof(Scalars) <= plan::kScalarsBytes);
inline constexpr int64_t kStepSums = 3;
static_assert(offsetof(Scalars, global_loss_sum) ==
              offsetof(Scalars, norm_sums) + (kStepSums - 1) * sizeof(double));

// Lists and sums of self-verification, for N verified tensors.
struct VerificationBuffers {
  kernels::NormTensor* values = nullptr;  // [N]: the checked parts of the trained values
  kernels::NormSums* norms = nullptr;     // [N]: of the gradients
  kernels::TensorBits* bits = nullptr;    // [N]: of `values`
  double* sums = nullptr;                 // [kSumsOfTensor N + kSumsOfBatch] (buffer_rows.h)
};

// One element per output column of the packs that DoRA scales, pack after pack; null without DoRA.
struct DoraBuffers {
  float* squares = nullptr;                  // of the rows of W
  float *norm = nullptr, *factor = nullptr;  // of this step
};

// Of a loss of documents: S those of a micro-step, R its rows with a target. Null without such a
// loss; a policy loss has `rows` and `weights`.
struct DocumentBuffers {
  kernels::DocumentRows* rows = nullptr;        // [S]
  kernels::DocumentSums* sums = nullptr;        // [S], of the newest sweep
  kernels::DocumentSums* references = nullptr;  // [S]; null without a reference
  float* values = nullptr;                      // [S, DocumentLoss::values_per_document]
  double* coefficients = nullptr;               // [S]
  float* weights = nullptr;                     // [R]
};

// Of a policy loss; null without one.
struct PolicyBuffers {
  float *old_logps = nullptr, *advantages = nullptr;  // [R]
  float* references = nullptr;                        // [R]; null without a KL term
  kernels::PolicyPart* parts = nullptr;               // [S]
};

struct Buffers {
  // Every row of the table by its name (common/plan/buffer_names.h). At() is null for an absent
  // row.
  std::unordered_map<std::string, void*> table;
  void* At(const std::string& name) const {
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second;
  }

  // Rows of parameters. `flats` are views into them, by index into the shard map.
  char *weights = nullptr, *weight_slots = nullptr;
  char* expert_weights = nullptr;  // of Plan::experts_at_once experts, in the compute dtype
  char* packed_slot = nullptr;     // null unless quantised weights are gathered
  float* weight_scales = nullptr;  // of quantised matrices: plan::ScaleConstants
  char *gradients = nullptr, *gradient_slots = nullptr;
  char* gradient_companions = nullptr;  // null unless sums of gradients are compensated
  kernels::Workspace gradient_term;     // of one product; null where products add themselves
  char* master = nullptr;               // null: every weight is its own master
  std::vector<char*> states;            // rows of the optimizer, as its table lists them
  std::vector<FlatMemory> flats;
  char* snapshot = nullptr;                    // common/plan/snapshot_map.h; may be host memory
  void* final_norm = nullptr;                  // [T, H]
  void *dres = nullptr, *dnorm = nullptr;      // [T, H]
  void* logits = nullptr;                      // [C, stride of common/plan/extents.h]
  void *head_x = nullptr, *head_dx = nullptr;  // [C, H]
  void* head_lora_h = nullptr;                 // [C, r], null unless the head is adapted
  // [T, r], null unless the embedding is adapted
  void *embedding_lora_h = nullptr, *embedding_lora_dh = nullptr;
  // [C]; hits in head_loss when evaluating. Where rows have weights, head_nll is [R].
  float *head_loss = nullptr, *head_nll = nullptr;
  // Cut: [R, 2], null of a head in chunks; logits is its workspace, C of the rows above is R,
  // head_dx is float32.
  float* head_statistics = nullptr;
  // [S, labels] of a loss of scores, which has none of the other rows of the head
  float *scores = nullptr, *dscores = nullptr;
  void* embedding_rows = nullptr;                      // [W T, H], null unless ranks exchange them
  int32_t* embedding_ids = nullptr;                    // [W T], likewise; -1: no token
  int32_t *tokens = nullptr, *positions = nullptr;     // [T]
  int32_t* rope_rows = nullptr;                        // [T], of common/plan/extents.h
  int32_t *labels = nullptr, *rows = nullptr;          // [R]
  uint32_t *bins = nullptr, *bin_positions = nullptr;  // [T]; null without dropout
  uint32_t* first_bin = nullptr;                       // [1]; null unless gradients are drawn for
  // [R]: bins and positions of the rows with a target; null unless the head is adapted and has
  // dropout
  uint32_t *row_bins = nullptr, *row_positions = nullptr;
  int32_t* cu_seqlens = nullptr;  // [D + 1]
  int32_t* padding = nullptr;     // [T], -1: a row of padding; null where no row is
  // Of each pool (router_losses.h): sums, two losses, two factors; null without such losses.
  double *router_sums = nullptr, *router_losses = nullptr;
  float* router_factors = nullptr;
  double* router_use = nullptr;         // plan::RouterUseDoubles; null without routers
  float* router_corrections = nullptr;  // null unless updates move them
  // Delayed scaling of products in FP8, O operands (common/plan/fp8_history.h); null without.
  float* fp8_history = nullptr;   // [O, kernels::kFp8History]
  float* fp8_expected = nullptr;  // [O]
  float* fp8_gathered = nullptr;  // [W, O rounded up]: what each rank observed
  float* fp8_observed = nullptr;  // [O]: this rank's part of that
  // Of operands, found by who stores them (common/plan/buffers/fp8_amaxes.h); null without.
  float* fp8_amaxes = nullptr;
  // Of weights whose codes are gathered, N of them (common/plan/fp8_gather.h); null without.
  float* fp8_weight_amaxes = nullptr;  // [shard + 1, N rounded up]
  float* fp8_weight_scales = nullptr;  // [N + 1, plan::kFloatsOfScale]
  float* fp8_constants = nullptr;
  // [T]: the generated text to which a row belongs, -1: none; null unless the plan generates
  int32_t* cached_sequences = nullptr;
  // [texts] int32: chosen tokens. It has room for as many doubles, in which rank 0 sends them to
  // others.
  void* generated_ids = nullptr;
  DoraBuffers dora;
  DocumentBuffers documents;
  PolicyBuffers policy;
  Scalars* scalars = nullptr;
  // [N trainable tensors] each. Both are views of one row; the plan's optimizer decides which is
  // used.
  kernels::AdamWTensor* adamw_tensors = nullptr;
  kernels::AdamW8bitTensor* adamw_8bit_tensors = nullptr;
  kernels::NormTensor* norm_tensors = nullptr;  // [N]: gradients of the verified tensors
  kernels::NormSums* norm_chunks = nullptr;     // [chunks of norm_tensors]: of the newest norm
  VerificationBuffers verified;
  kernels::Workspace scratch;
};

// Binds every row of the table except "scratch". InvalidArgument as Arena::Bind.
absl::StatusOr<Buffers> BindBuffers(const plan::Plan& plan, const ParameterLayout& layout,
                                    Arena& arena);

// Binds "scratch" of at least `bytes`, the need of the kernels (plan_check.h).
absl::StatusOr<kernels::Workspace> BindScratch(int64_t bytes, Arena& arena);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_MEMORY_BUFFERS_H_
