#include "controller/cli/text/verification_text.h"

#include <fmt/format.h>

#include "common/outside_text.h"

namespace coxswain::cli {

std::string VerificationsText(const v1::Job& job) {
  std::string text;
  for (const v1::Verification& one : job.verifications()) {
    if (!text.empty()) text += "; ";
    if (!one.verified()) {
      text += fmt::format("{} skipped: {}", OneLine(one.artifact()), OneLine(one.reason()));
      continue;
    }
    text += fmt::format("{} on {} record{} ({} targets), largest difference {:.3g}, bound {:.3g}",
                        OneLine(one.artifact()), one.records(), one.records() == 1 ? "" : "s",
                        one.targets(), one.difference(), one.bound());
  }
  return text;
}

}  // namespace coxswain::cli
