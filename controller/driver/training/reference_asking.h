// Asks a gang for the log-probabilities that a preference job keeps of its start, before the first
// step. No clock, no I/O.
#ifndef COXSWAIN_CONTROLLER_DRIVER_TRAINING_REFERENCE_ASKING_H_
#define COXSWAIN_CONTROLLER_DRIVER_TRAINING_REFERENCE_ASKING_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "controller/driver/training/batch.h"
#include "controller/driver/training/curriculum.h"
#include "controller/driver/training/deal_bins.h"
#include "controller/gang/gang.h"
#include "controller/gang/program.h"

namespace coxswain::driver {

// Loop thread only. The documents of the first pass, step by step, then those of the evaluation.
class ReferenceAsking {
 public:
  // Called with all sums; the callee keeps them, then calls Training::ReferencesKept.
  using Told = std::function<void(std::shared_ptr<const ReferenceSums> sums)>;
  using DealOf = std::function<std::shared_ptr<const Batch>(std::span<const BinSize> bins)>;

  // `known`: sums that were kept before; null: none were.
  ReferenceAsking(const Curriculum* curriculum,
                  const std::vector<std::span<const BinSize>>& eval_parts,
                  std::shared_ptr<const ReferenceSums> known, Told told);

  // Steps wait: sums are wanted and not kept yet.
  bool pending() const { return curriculum_->keeps_references() && !kept_; }
  // Nothing: all is asked.
  std::optional<gang::Order> Ask(const DealOf& deal);
  // Of the oldest order that was not taken. Internal: a rank told of other documents.
  absl::Status Take(const gang::InFlight& command);
  void Kept() { kept_ = true; }

  // The sums of the documents of bins of a step, or with `step` < 0 of the evaluation; nothing
  // where none are kept.
  std::vector<double> SumsOf(int64_t step, std::span<const int64_t> ids, Side side) const;

 private:
  struct Part {
    int64_t step = -1;  // -1: of the evaluation
    Side side = Side::kTrained;
    std::vector<BinSize> bins;
  };
  struct Sent {
    int64_t step = -1;
    Side side = Side::kTrained;
    std::shared_ptr<const Batch> batch;
  };

  void ListParts(const std::vector<std::span<const BinSize>>& eval_parts);

  const Curriculum* const curriculum_;
  const Told told_;
  std::shared_ptr<const ReferenceSums> sums_;  // null: being gathered
  bool kept_ = false;
  std::vector<Part> parts_;
  size_t next_part_ = 0;
  std::deque<Sent> in_flight_;
  std::shared_ptr<ReferenceSums> gathered_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_TRAINING_REFERENCE_ASKING_H_
