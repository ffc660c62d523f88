// The bins of one command, dealt to the ranks of a gang.
#ifndef COXSWAIN_CONTROLLER_DRIVER_TRAINING_BATCH_H_
#define COXSWAIN_CONTROLLER_DRIVER_TRAINING_BATCH_H_

#include <cstdint>
#include <span>
#include <vector>

#include "controller/driver/training/curriculum.h"
#include "controller/driver/training/deal_bins.h"
#include "controller/gang/gang.h"

namespace coxswain::driver {

struct Batch {
  int64_t step = 0;                             // 0-based; of an evaluation: finished steps
  int64_t targets = 0;                          // of all bins
  int64_t denominator = 0;                      // of the loss: targets, or pairs or records
  int64_t nll_rows = 0;                         // of a loss of documents (BinSize)
  int64_t tokens = 0;                           // of all bins
  int64_t micro_steps = 0;                      // of the rank with the most bins
  std::vector<std::vector<int64_t>> bins = {};  // ids, per rank
  std::vector<BinForm> forms = {};              // how they travel, per rank
};

// Of a loss of documents whose batch, or evaluation, has so many pairs and rows of the nll term.
v1::DocumentScalars DocumentScalarsOf(int64_t units, int64_t nll_rows);

// `micro_batch_bins` and `work` are the plan's.
Batch DealBatch(int64_t step, std::span<const BinSize> bins, const gang::Gang& gang,
                const BinWork& work, int64_t micro_batch_bins);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_TRAINING_BATCH_H_
