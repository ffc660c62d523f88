#include "controller/cli/text/held_out_text.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "common/format.h"
#include "controller/cli/text/preference_text.h"

namespace coxswain::cli {
namespace {

bool StopsEarly(const v1::Job& job) {
  const auto effective =
      nlohmann::json::parse(job.effective_json(), nullptr, /*allow_exceptions=*/false);
  const nlohmann::json::json_pointer patience("/spec/eval/early_stopping_patience");
  return effective.is_object() && effective.contains(patience) &&
         effective.at(patience).is_number();
}

// Of the loss before training; empty where that is not known.
std::string Change(const v1::Progress& progress, double loss) {
  if (progress.first_eval_loss() <= 0) return "";
  return fmt::format(" ({:+.1f} %)", 100 * (loss / progress.first_eval_loss() - 1));
}

std::string BestText(const v1::Progress& p) {
  std::string perplexity;  // of a loss of pairs there is none
  if (!p.has_eval_preference()) {
    perplexity = fmt::format(", perplexity {:.4g}", std::exp(p.best_eval_loss()));
  }
  return fmt::format("{:.4f} at step {}, which is exported{}{}; {:.4f} at the last",
                     p.best_eval_loss(), p.best_step(), Change(p, p.best_eval_loss()), perplexity,
                     p.eval_loss());
}

std::string LastText(const v1::Progress& p, bool ended) {
  std::string text =
      fmt::format("{:.4f} {}{}", p.eval_loss(), ended ? "after" : "at the last evaluation",
                  ended ? Change(p, p.eval_loss()) : "");
  if (p.has_eval_preference()) return text + ", " + MarginText(p.eval_preference());
  if (!p.has_eval_token_accuracy()) return text;
  return text + fmt::format(", perplexity {:.4g}, token accuracy {:.1f} %", p.eval_perplexity(),
                            100 * p.eval_token_accuracy());
}

}  // namespace

// Only an ended run was evaluated after its last step.
std::string HeldOutText(const v1::Job& job) {
  const v1::Progress& p = job.progress();
  const bool ended = job.state() == v1::JOB_STATE_SUCCEEDED;
  const bool best = ended && StopsEarly(job) && p.best_step() < p.step();
  std::string text = fmt::format("held-out loss: {:.4f} before, {}", p.first_eval_loss(),
                                 best ? BestText(p) : LastText(p, ended));
  if (job.data().eval_documents() > 0) {
    const bool pairs = p.eval_preference().pairs();
    text += fmt::format(", on {} {}", FormatCount(job.data().eval_documents() / (pairs ? 2 : 1)),
                        pairs ? "pairs" : "records");
  }
  return text + "\n";
}

}  // namespace coxswain::cli
