#include "controller/cli/text/step_text.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/format.h"
#include "controller/cli/text/expert_text.h"
#include "controller/cli/text/preference_text.h"
#include "controller/cli/text/table.h"

namespace coxswain::cli {
namespace {

std::string Milliseconds(double seconds) { return fmt::format("{:.1f}ms", 1000 * seconds); }

}  // namespace

double FiniteOrZero(double value) { return std::isfinite(value) ? value : 0; }

std::string StepText(const v1::StepDone& step) {
  std::string text =
      fmt::format("step {}   loss {:.6f}   grad norm {:.6f}   learning rate {:.4g}\n",
                  step.step() + 1, FiniteOrZero(step.loss()), FiniteOrZero(step.grad_norm()),
                  FiniteOrZero(step.learning_rate()));
  if (step.has_preference()) text += PreferenceText(step.preference());
  if (step.has_experts()) text += ExpertText(step.experts());
  Table table({"RANK", "LOSS-SUM", "TARGETS", "TOKENS", "FORWARD", "BACKWARD", "COMM", "OPTIMIZER",
               "TOTAL", "BINS"});
  for (const v1::RankStep& rank : step.ranks()) {
    const v1::PhaseSeconds& seconds = rank.seconds();
    table.Add({fmt::format("{}", rank.rank()), fmt::format("{:.4f}", FiniteOrZero(rank.loss_sum())),
               FormatCount(rank.targets()), FormatCount(rank.tokens()),
               Milliseconds(seconds.forward()), Milliseconds(seconds.backward()),
               Milliseconds(seconds.comm()), Milliseconds(seconds.optimizer()),
               Milliseconds(seconds.step()), fmt::format("{}", fmt::join(rank.bin_ids(), ","))});
  }
  return text + table.Text(2);
}

}  // namespace coxswain::cli
