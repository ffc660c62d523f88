// Stages the bins of a command into the device arrays of one micro-step.
#ifndef COXSWAIN_WORKER_ENGINE_BATCHES_BATCH_H_
#define COXSWAIN_WORKER_ENGINE_BATCHES_BATCH_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/plan.h"
#include "kernels/device.h"
#include "worker/engine/batches/policy_rows.h"
#include "worker/engine/commands/commands.h"
#include "worker/engine/device/device_handles.h"
#include "worker/engine/memory/buffers.h"

namespace coxswain::engine {

// InvalidArgument names bin, document or token and both values. Errors: counts do not add up, a bin
// is longer than sequence_len or has more documents than the plan allows, an id is outside the
// vocabulary, the last token of a document has a target, or the bins need more micro-steps.
// `scored`: the loss of a step or evaluation is taken, for which a loss of documents may want
// references and values, and a policy loss wants advantages and old log-probabilities.
absl::Status CheckBins(const plan::Plan& plan, const BinBatch& bins, bool scored = true);

// Extents of a staged micro-step.
struct MicroBatch {
  int64_t tokens = 0;  // T
  int64_t documents = 0;
  int64_t max_length = 0;  // of its longest document
  bool dense = false;      // kernels::Documents
  // Tokens with a target; of a loss of scores the last one of each document that is no padding.
  // Padded: whole chunks of the head, or all documents that there is room for.
  int64_t target_rows = 0;
  // Documents, where they have scores or rows have weights; padded: all there is room for.
  int64_t scored = 0;
  bool train = false;  // dropout only when training
  // Rows behind each bin, where the model has losses of routers: the stager's, until it stages the
  // next but one.
  const std::vector<int64_t>* bin_ends = nullptr;
};

// The place in a BinBatch where the next micro-step starts.
struct BinCursor {
  size_t bin = 0, document = 0, token = 0, target = 0;
};

// Stages micro-steps in two pinned host buffers: one is written while the other is copied. The
// constructor reserves all memory.
//
// On a GPU every micro-step has the same shape, so that one captured graph serves all. A bin takes
// sequence_len rows. Missing bins and tails become documents of token 0 without targets. The list
// of documents is filled up with empty documents, the list of rows with a target with row -1.
class BatchStager {
 public:
  explicit BatchStager(const plan::Plan& plan);

  // Copies the next micro_batch_bins bins (fewer at the end) to the device arrays of `buffers` and
  // moves the cursor past them. Positions restart at each document. `bins` must have passed
  // CheckBins.
  // `loss_denominator`: of the step, for the weight of the routers' losses; 0 when evaluating.
  MicroBatch StageNext(const BinBatch& bins, const Buffers& buffers, kernels::Stream* stream,
                       BinCursor* cursor, int64_t loss_denominator = 0);

 private:
  void AppendBin(const BinBatch& bins, BinCursor* cursor);
  void AppendDocument(const BinBatch& bins, BinCursor* cursor, int64_t bin, int32_t length);
  void AppendScored(const BinBatch& bins, size_t document, int64_t first_row, int64_t targets);
  void AppendRow(const BinBatch& bins, const BinCursor& cursor, int64_t bin);
  void AppendPadding(int64_t rows, int32_t first_position);
  void PadLists();
  void SetRouterFactors(int64_t loss_denominator);
  bool NextIsDense(const BinBatch& bins, const BinCursor& cursor) const;

  const int64_t micro_batch_bins_, sequence_len_, chunk_;
  const int64_t long_row_;   // plan::LongDocumentRow
  const int64_t documents_;  // capacity of the list of documents
  const bool dropout_, head_dropout_, padded_;
  const bool names_first_bin_;
  const bool marks_padding_;
  const plan::DocumentLoss document_loss_;
  const std::optional<int64_t> pad_token_;
  const bool weighs_rows_;
  const int64_t scored_;  // capacity of the list of scored documents
  const plan::RouterLosses router_losses_;
  const int64_t ranks_;
  bool dense_ = false;  // of the micro-step being staged
  int64_t max_length_ = 0;
  uint32_t position_in_bin_ = 0;

  struct Slot {
    explicit Slot(const plan::Plan& plan);
    PinnedArray<int32_t> tokens, positions, rows, labels, cu_seqlens;
    PinnedArray<uint32_t> bins, bin_positions, row_bins, row_positions, first_bin;
    PinnedArray<int32_t> rope_rows;     // where long_row_ > 0
    PinnedArray<int32_t> padding;       // -1: a row of it
    PinnedArray<float> router_factors;  // two of each pool
    PinnedArray<kernels::DocumentRows> scored;
    PinnedArray<kernels::DocumentSums> references;
    PinnedArray<float> values;  // of documents
    PolicyRows policy;
    std::vector<int64_t> bin_ends, bin_targets;
    EventHandle uploaded;
  };
  std::array<std::unique_ptr<Slot>, 2> slots_;
  Slot* slot_ = nullptr;  // being staged
  size_t next_slot_ = 0;
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_BATCHES_BATCH_H_
