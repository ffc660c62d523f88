#include "controller/cli/text/expert_text.h"

#include <fmt/format.h>

#include "common/format.h"
#include "controller/cli/text/table.h"

namespace coxswain::cli {

std::string ExpertText(const v1::ExpertUse& use) {
  std::string text = fmt::format(
      "experts: the fullest has {:.2f}x the mean ({:.2f}x in layer {}), {} unused; router entropy "
      "{:.3f} nats",
      use.load_ratio(), use.worst_load_ratio(), use.worst_layer(), use.unused_experts(),
      use.router_entropy());
  if (use.nonfinite_tokens() > 0) {
    text +=
        fmt::format(" without {} tokens that are not finite", FormatCount(use.nonfinite_tokens()));
  }
  if (use.has_balance_loss()) {
    text += fmt::format("; balancing loss {:.4f}", use.balance_loss());
  }
  if (use.has_z_loss()) text += fmt::format("; z-loss {:.4f}", use.z_loss());
  return text + "\n";
}

std::string ExpertTable(const v1::InspectResponse& ranks) {
  if (ranks.expert_layers().empty()) return "";
  Table table({"LAYER", "LOAD", "UNUSED", "ENTROPY", "NOT-FINITE"});
  for (const v1::LayerExpertUse& layer : ranks.expert_layers()) {
    table.Add({fmt::format("{}", layer.layer()), fmt::format("{:.2f}x", layer.load_ratio()),
               fmt::format("{}", layer.unused_experts()),
               fmt::format("{:.3f}", layer.router_entropy()),
               FormatCount(layer.nonfinite_tokens())});
  }
  return table.Text(2);
}

}  // namespace coxswain::cli
