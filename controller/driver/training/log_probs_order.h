// The command that asks for log-probabilities of documents, and the check of its answers.
#ifndef COXSWAIN_CONTROLLER_DRIVER_TRAINING_LOG_PROBS_ORDER_H_
#define COXSWAIN_CONTROLLER_DRIVER_TRAINING_LOG_PROBS_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "controller/driver/training/batch.h"
#include "controller/driver/training/curriculum.h"
#include "controller/gang/program.h"

namespace coxswain::driver {

struct LogProbsOf {
  int64_t step = -1;  // of training; -1: of the evaluation
  Side side = Side::kTrained;
  bool without_adapters = false;
};

// `curriculum` outlives the order.
gang::Order LogProbsOrder(const Curriculum* curriculum, const std::shared_ptr<const Batch>& batch,
                          LogProbsOf of);

// Internal, naming the rank and both numbers: it told of other documents than it was sent.
absl::Status CheckLogProbs(size_t rank, size_t documents, const v1::Done& done);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_TRAINING_LOG_PROBS_ORDER_H_
