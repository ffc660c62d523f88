#include "controller/driver/training/asking.h"

#include <algorithm>
#include <utility>

#include "controller/failure/errors.h"

namespace coxswain::driver {
namespace {

// Tokens of a piece of an answer: few enough that one command stays short, and that a reader sees
// an answer grow.
constexpr int64_t kPieceTokens = 8;

}  // namespace

std::optional<gang::Order> Asking::Ask(int64_t step, bool asked_before) {
  if (asked_tokens_ != 0 && answered_step_ == step && !asked_before) {
    asked_tokens_ = 0;
    return std::nullopt;
  }
  gang::Order order{.turn = gang::Turn::kBetween, .phase = "generate", .step = step};
  v1::Generate& generate = *order.command.mutable_generate();
  generate.set_step(step);
  Piece& piece = pieces_.emplace_back();
  piece.first = asked_tokens_ == 0;
  if (piece.first) {
    for (const std::vector<int32_t>& ids : questions_->ids) {
      generate.add_prompts()->mutable_ids()->Add(ids.begin(), ids.end());
    }
    generate.mutable_ends()->Add(questions_->ends.begin(), questions_->ends.end());
    *generate.mutable_sampling() = questions_->sampling;
  }
  const int64_t tokens = std::min(kPieceTokens, questions_->most_tokens - asked_tokens_);
  generate.set_tokens(static_cast<int32_t>(tokens));
  asked_tokens_ += tokens;
  piece.last = asked_tokens_ == questions_->most_tokens;
  if (piece.last) asked_tokens_ = 0;
  return order;
}

// Pieces behind the last token say nothing.
std::optional<v1::Error> Asking::Take(const gang::InFlight& command) {
  const Piece piece = pieces_.front();
  pieces_.pop_front();
  if (piece.first) {
    answers_.Begin(questions_->ids.size());
    began_ns_ = command.began_ns;
  }
  if (answered_step_ == command.step) return std::nullopt;
  if (const absl::Status added = answers_.Add(command); !added.ok()) {
    return failure::MakeError(added, {.phase = command.phase});
  }
  const bool whole = piece.last || answers_.AllEnded();
  if (whole) answered_step_ = command.step;
  told_(command.step, answers_, static_cast<double>(command.done_ns - began_ns_) * 1e-9, whole);
  return std::nullopt;
}

}  // namespace coxswain::driver
