// Asks a gang that has trained for the loss of some records: of its trained state, then of what was
// written of that and read back. No clock, no I/O.
#ifndef COXSWAIN_CONTROLLER_DRIVER_TRAINING_PROOF_ASKING_H_
#define COXSWAIN_CONTROLLER_DRIVER_TRAINING_PROOF_ASKING_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/driver/training/batch.h"
#include "controller/driver/training/curriculum.h"
#include "controller/gang/program.h"

namespace coxswain::driver {

// What a gang is asked: the losses of the first `records` of Curriculum::proof_bins, under each of
// these weights in turn.
struct ProofQuestions {
  std::vector<std::optional<v1::Load>> weights;  // nothing: as they are
  int64_t records = 0;                           // >= 1
};

struct ProofAnswers {
  // By weights, then by record: its loss in nats, summed over its targets; of scores as their loss
  // is. Fewer where files were refused, or the asking was cut.
  std::vector<std::vector<double>> losses;
  std::string refused =
      {};  // by the reader: the files of the weights behind those; empty: none were
};

// Loop thread only. The last commands of a training; its gang waits for them. It begins idle.
class ProofAsking {
 public:
  using DealOf = std::function<std::shared_ptr<const Batch>(std::span<const BinSize> bins)>;
  struct Events {
    // All else is done. The callee calls Begin, now or later, or End. Empty: nothing is asked.
    std::function<void()> wanted = {};
    std::function<void(const ProofAnswers&)> answered = {};  // the callee calls End, now or later
  };

  ProofAsking(const Curriculum* curriculum, Events events)
      : curriculum_(curriculum), events_(std::move(events)) {}

  // The program goes on waiting while it is not.
  bool ended() const { return ended_ || events_.wanted == nullptr; }
  bool begun() const { return begun_; }
  // Nothing: it waits for answers, for Begin or for End.
  std::optional<gang::Order> Ask(int64_t step, const DealOf& deal);
  // Of the oldest order that was not taken. Internal: a rank told of other records.
  absl::Status Take(const gang::InFlight& command);

  void Begin(ProofQuestions questions);
  void Cut();  // asks nothing more: what is on its way is the last
  void End() { ended_ = true; }

 private:
  struct Sent {
    std::shared_ptr<const Batch> batch;  // null: a LOAD
  };

  gang::Order LoadOrder(int64_t step);
  gang::Order RecordOrder(int64_t step, const DealOf& deal);
  absl::Status TakeRecord(const Batch& batch, const gang::InFlight& command);
  bool AllAsked() const { return cut_ || next_weights_ == questions_.weights.size(); }

  const Curriculum* const curriculum_;
  const Events events_;
  bool wanted_ = false, begun_ = false, cut_ = false, told_ = false, ended_ = false;
  ProofQuestions questions_;
  size_t next_weights_ = 0;
  bool loaded_ = false;  // the LOAD of next_weights_ was sent
  int64_t next_record_ = 0;
  std::deque<Sent> in_flight_;
  ProofAnswers answers_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_TRAINING_PROOF_ASKING_H_
