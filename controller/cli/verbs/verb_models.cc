#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/model/family.h"
#include "common/model/flops.h"
#include "common/model/parameter_table.h"
#include "common/model/read/read_model_config.h"
#include "common/outside_text.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/output.h"
#include "controller/cli/text/table.h"

namespace coxswain::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ModelsArgs {
  std::string model;  // empty: the families
  std::string output = "table";
};

int ListFamilies(Cox* cox, const std::string& output) {
  Json list = Json::array();
  Table table({"ARCHITECTURE", "MODEL TYPE", "CHECKPOINTS"});
  for (const model::Family* family : model::Families()) {
    const std::string architecture(family->architecture), type(family->model_type);
    const std::string checkpoints(family->checkpoints);
    table.Add({architecture, type, checkpoints});
    list.push_back(
        {{"architecture", architecture}, {"model_type", type}, {"checkpoints", checkpoints}});
  }
  if (IsStructured(output)) {
    PrintStructured({{"families", list}}, output, cox->out());
  } else {
    cox->out() << table.Text();
  }
  return kOk;
}

// " (3353239040 of them active), 128 experts, 8 of a token"; nothing without experts.
std::string ActiveText(const model::ModelConfig& config, int64_t active) {
  if (config.mixture.experts == 0) return "";
  return absl::StrCat(" (", active, " of them active), ", config.mixture.experts, " experts, ",
                      config.mixture.chosen, " of a token");
}

std::string LatentText(const model::ModelConfig& config) {
  if (!config.latent) return "";
  return absl::StrCat(" and ", config.latent->value, " from a latent of ", config.latent->kv_rank);
}

std::string QuantizationText(const model::ModelConfig& config) {
  if (config.quantization == Quantization::kNone) return "";
  return absl::StrCat(
      config.quantization == Quantization::kMxfp4 ? ", experts in " : ", linears in ",
      ToString(config.quantization));
}

int ShowModel(Cox* cox, const ModelsArgs& args) {
  std::vector<std::string> warnings;
  const absl::StatusOr<model::ModelConfig> config = model::ReadModelConfig(args.model, &warnings);
  if (!config.ok()) return cox->Fail(config.status());
  int64_t parameters = 0;
  const std::vector<model::Parameter> table = model::BaseParameterTable(*config);
  for (const model::Parameter& parameter : table) parameters += parameter.elements();
  const int64_t active = model::ActiveParameters(*config, table);
  if (IsStructured(args.output)) {
    PrintStructured({{"supported", true},
                     {"architecture", config->architecture},
                     {"parameters", parameters},
                     {"active_parameters", active},
                     {"warnings", warnings}},
                    args.output, cox->out());
    return kOk;
  }
  for (const std::string& warning : warnings)
    cox->err() << "cox: warning: " << OneLine(warning) << "\n";
  cox->out() << "supported: " << OneLine(config->architecture) << ", " << parameters
             << " parameters" << ActiveText(*config, active) << ", " << config->num_layers
             << " layers, hidden " << config->hidden_size << ", " << config->num_heads << "/"
             << config->num_kv_heads << " heads of " << config->head_dim << LatentText(*config)
             << ", vocabulary " << config->vocab_size << ", rotation " << OneLine(config->rope.type)
             << QuantizationText(*config) << "\n";
  return kOk;
}

int RunModels(Cox* cox, const ModelsArgs& args) {
  return args.model.empty() ? ListFamilies(cox, args.output) : ShowModel(cox, args);
}

}  // namespace

void AddModels(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<ModelsArgs>();
  Verb(app, "models", "List supported model families, or check a model; needs no controller")
      .Text("model", &args->model, "Model directory with a config.json")
      .Output(&args->output, {"table", "json", "yaml"})
      .Run(cox, [cox, args] { return RunModels(cox, *args); });
}

}  // namespace coxswain::cli
