#include "controller/cli/step_text.h"

#include <fmt/format.h>

#include "common/format.h"
#include "controller/cli/table.h"

namespace coxswain::cli {
namespace {

using Json = nlohmann::ordered_json;

double Number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

std::string BinList(const Json& rank) {
  std::string text;
  const auto found = rank.find("bin_ids");
  if (found == rank.end() || !found->is_array()) return text;
  for (const Json& bin : *found) text += (text.empty() ? "" : ",") + bin.dump();
  return text;
}

}  // namespace

Json StepJson(const v1::JobEvent& event) {
  Json data = Json::parse(event.data_json(), nullptr, /*allow_exceptions=*/false);
  return data.is_object() ? data : Json::object();
}

std::string StepText(const Json& step) {
  std::string text =
      fmt::format("step {}   loss {:.6f}   grad norm {:.6f}   learning rate {:.4g}\n",
                  static_cast<int64_t>(Number(step, "step")) + 1, Number(step, "loss"),
                  Number(step, "grad_norm"), Number(step, "learning_rate"));
  const auto ranks = step.find("ranks");
  if (ranks == step.end() || !ranks->is_array()) return text;
  Table table({"RANK", "LOSS-SUM", "TARGETS", "TOKENS", "FORWARD", "BACKWARD", "COMM", "OPTIMIZER",
               "TOTAL", "BINS"});
  for (const Json& rank : *ranks) {
    if (!rank.is_object()) continue;
    const Json seconds = rank.value("seconds", Json::object());
    std::vector<std::string> row = {fmt::format("{:.0f}", Number(rank, "rank")),
                                    fmt::format("{:.4f}", Number(rank, "loss_sum")),
                                    FormatCount(static_cast<int64_t>(Number(rank, "targets"))),
                                    FormatCount(static_cast<int64_t>(Number(rank, "tokens")))};
    for (const char* phase : {"forward", "backward", "comm", "optimizer", "step"}) {
      row.push_back(fmt::format("{:.1f}ms", 1000 * Number(seconds, phase)));
    }
    row.push_back(BinList(rank));
    table.Add(row);
  }
  return text + table.Text(2);
}

}  // namespace coxswain::cli
