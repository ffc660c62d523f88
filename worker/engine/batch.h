// From the bins of a command to the device arrays of one micro-step.
#ifndef COXSWAIN_WORKER_ENGINE_BATCH_H_
#define COXSWAIN_WORKER_ENGINE_BATCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/plan.h"
#include "kernels/device.h"
#include "worker/engine/buffers.h"
#include "worker/engine/engine.h"

namespace coxswain::engine {

// InvalidArgument names bin, document or token and both values: counts that do not add up, a bin
// longer than sequence_len or with more documents than the plan allows, an id outside the
// vocabulary, a target at the last token of a document.
absl::Status CheckBins(const plan::Plan& plan, const BinBatch& bins);

// Extents of a staged micro-step.
struct MicroBatch {
  int64_t tokens = 0;  // T
  int64_t documents = 0;
  int64_t max_length = 0;   // of its documents
  int64_t target_rows = 0;  // tokens with a target
  bool train = false;       // dropout only then
};

// Where the next micro-step starts in a BinBatch.
struct BinCursor {
  size_t bin = 0, document = 0, token = 0;
};

// Host staging of micro-steps. Reserves all its memory when made.
class BatchStager {
 public:
  explicit BatchStager(const plan::Plan& plan);

  // Copies the next micro_batch_bins bins (fewer at the end) to the device arrays of `buffers` and
  // moves the cursor behind them. Positions restart at each document. `bins` has passed CheckBins.
  MicroBatch StageNext(const BinBatch& bins, const Buffers& buffers, kernels::Stream* stream,
                       BinCursor* cursor);

 private:
  void AppendBin(const BinBatch& bins, BinCursor* cursor);

  int64_t micro_batch_bins_ = 0;
  bool dropout_ = false;
  std::vector<int32_t> tokens_, positions_, rows_, labels_, cu_seqlens_;
  std::vector<uint32_t> bins_, bin_positions_;
  int64_t max_length_ = 0;
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_BATCH_H_
