#include "controller/driver/training/log_probs_order.h"

#include "absl/strings/str_cat.h"

namespace coxswain::driver {

gang::Order LogProbsOrder(const Curriculum* curriculum, const std::shared_ptr<const Batch>& batch,
                          LogProbsOf of) {
  gang::Order order{.turn = gang::Turn::kBetween, .phase = "log_probs", .step = batch->step};
  v1::LogProbs& asked = *order.command.mutable_log_probs();
  asked.set_held_out(of.step < 0);
  asked.set_without_adapters(of.without_adapters);
  asked.mutable_bins()->set_micro_steps(batch->micro_steps);
  order.fill = [curriculum, batch, of](int rank, v1::Command* own) {
    v1::Bins* const bins = own->mutable_log_probs()->mutable_bins();
    if (of.side == Side::kMismatched) {
      curriculum->FillMismatched(of.step, batch->bins[rank], batch->forms[rank], bins);
    } else if (of.step < 0) {
      curriculum->FillEval(batch->bins[rank], batch->forms[rank], bins);
    } else {
      curriculum->FillTrain(of.step, batch->bins[rank], batch->forms[rank], bins);
    }
    bins->clear_values();
  };
  return order;
}

absl::Status CheckLogProbs(size_t rank, size_t documents, const v1::Done& done) {
  if (static_cast<size_t>(done.log_probs_size()) == documents) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("log_probs: rank ", rank, " was sent ", documents,
                                          " documents and tells of ", done.log_probs_size()));
}

}  // namespace coxswain::driver
