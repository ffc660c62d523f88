#include "controller/cli/text/preference_text.h"

#include <fmt/format.h>

namespace coxswain::cli {

std::string MarginText(const v1::Preference& preference) {
  if (preference.of() == v1::Preference::LABELS) {
    return fmt::format("accuracy {:.1f} %", 100 * preference.accuracies());
  }
  if (preference.of() == v1::Preference::NUMBERS) {
    return fmt::format("mean {:+.4f}, of the records {:+.4f}", preference.rewards_chosen(),
                       preference.rewards_rejected());
  }
  std::string text =
      fmt::format("margin {:+.4f}", preference.rewards_chosen() - preference.rewards_rejected());
  if (preference.pairs()) {
    text += fmt::format(", accuracy {:.1f} %", 100 * preference.accuracies());
  }
  return text;
}

std::string PreferenceText(const v1::Preference& preference) {
  switch (preference.of()) {
    case v1::Preference::LABELS:
    case v1::Preference::NUMBERS:
      return MarginText(preference) + "\n";
    case v1::Preference::PAIR_SCORES:
      return fmt::format("rewards: chosen {:+.4f}, rejected {:+.4f}, {}\n",
                         preference.rewards_chosen(), preference.rewards_rejected(),
                         MarginText(preference));
    default:
      break;
  }
  return fmt::format(
      "rewards: chosen {:+.4f}, rejected {:+.4f}, {}; log-probabilities: chosen {:.3f}, rejected "
      "{:.3f}\n",
      preference.rewards_chosen(), preference.rewards_rejected(), MarginText(preference),
      preference.logps_chosen(), preference.logps_rejected());
}

}  // namespace coxswain::cli
