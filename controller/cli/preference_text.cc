#include "controller/cli/preference_text.h"

#include <fmt/format.h>

namespace coxswain::cli {

std::string MarginText(const v1::Preference& preference) {
  std::string text =
      fmt::format("margin {:+.4f}", preference.rewards_chosen() - preference.rewards_rejected());
  if (preference.pairs()) {
    text += fmt::format(", accuracy {:.1f} %", 100 * preference.accuracies());
  }
  return text;
}

std::string PreferenceText(const v1::Preference& preference) {
  return fmt::format(
      "rewards: chosen {:+.4f}, rejected {:+.4f}, {}; log-probabilities: chosen {:.3f}, rejected "
      "{:.3f}\n",
      preference.rewards_chosen(), preference.rewards_rejected(), MarginText(preference),
      preference.logps_chosen(), preference.logps_rejected());
}

}  // namespace coxswain::cli
