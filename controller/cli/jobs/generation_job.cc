#include "controller/cli/jobs/generation_job.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/parser/stored_job.h"
#include "common/config/rules/score_rules.h"
#include "common/files/read_file.h"
#include "common/model/read/read_model_config.h"
#include "common/status_macros.h"
#include "controller/data/documents/prompts.h"

namespace coxswain::cli {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<Json> ReadObject(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxConfigBytes));
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) return json;
  return absl::InvalidArgumentError(absl::StrCat(path, " holds no JSON object"));
}

std::string AbsolutePath(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

Json WithMethod(Json spec, Json generate) {
  spec["method"] = "generate";
  spec["generate"] = std::move(generate);
  return Json{{"apiVersion", "coxswain/v1"},
              {"kind", "FineTuneJob"},
              {"metadata", {{"name", "generate"}}},
              {"spec", std::move(spec)}};
}

// As the job's records ask; "auto" where its first dataset is out of reach.
std::string StyleOfJob(const v1::Job& job) {
  const config::ParsedJob parsed = config::ReadStoredJob(job.effective_json(), job.yaml(), "/");
  if (!parsed.errors.empty() || parsed.spec.datasets.empty()) return "auto";
  const auto style = data::StyleOf(parsed.spec.datasets.front(), parsed.spec.on_bad_record);
  return style.ok() ? config::AskingStyleName(*style) : "auto";
}

// Tokens of the longest text, where config.json tells.
constexpr int64_t kLongest = 1 << 20;

int64_t LongestText(const std::string& directory) {
  return std::min(model::MaxPositions(directory).value_or(kLongest), kLongest);
}

}  // namespace

absl::StatusOr<Json> GenerateSection(const GenerationArgs& args) {
  if (args.prompts.empty() == args.messages_file.empty()) {
    return absl::InvalidArgumentError("give --prompt TEXT or --messages FILE, one of the two");
  }
  Json section = {{"style", args.style},
                  {"max_new_tokens", args.max_new_tokens},
                  {"temperature", args.temperature},
                  {"top_k", args.top_k},
                  {"top_p", args.top_p},
                  {"seed", args.seed}};
  if (args.messages_file.empty()) {
    section["prompts"] = args.prompts;
    return section;
  }
  ASSIGN_OR_RETURN(const std::string messages,
                   ReadFileOrPipe(args.messages_file == "-" ? "/dev/stdin" : args.messages_file));
  section["messages"] = messages;
  return section;
}

absl::StatusOr<Json> ModelGeneration(const std::string& directory, const GenerationArgs& args) {
  ASSIGN_OR_RETURN(Json section, GenerateSection(args));
  RETURN_IF_ERROR(ReadObject(directory + "/config.json").status());
  Json spec = {{"base_model", AbsolutePath(directory)}, {"sequence_len", LongestText(directory)}};
  if (!args.adapter.empty()) {
    // The controller takes its settings over.
    RETURN_IF_ERROR(ReadObject(args.adapter + "/adapter_config.json").status());
    spec["lora"] = {{"init_from", AbsolutePath(args.adapter)}};
    spec["adapter"] = "lora";
  }
  return WithMethod(std::move(spec), std::move(section));
}

absl::StatusOr<Json> JobGeneration(const v1::Job& job, int64_t step, const GenerationArgs& args) {
  if (!args.adapter.empty()) {
    return absl::InvalidArgumentError("--adapter goes with a model's directory, not with a job");
  }
  if (job.checkpoints().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id(),
                     " has no checkpoint yet; wait for one, or name the folder "
                     "of its model"));
  }
  ASSIGN_OR_RETURN(Json section, GenerateSection(args));
  const Json effective = Json::parse(job.effective_json(), nullptr, /*allow_exceptions=*/false);
  if (!effective.is_object() || !effective.contains("spec")) {
    return absl::InternalError(absl::StrCat("job ", job.id(), " has no readable specification"));
  }
  const Json& from = effective["spec"];
  if (config::IsScoreMethod(from.value("method", ""))) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job.id(), " trains a head of scores (method: ", from.value("method", ""),
        "), which writes no text; load its export with ",
        "transformers' AutoModelForSequenceClassification"));
  }
  Json spec;
  for (const char* key : {"base_model", "adapter", "quantization", "lora", "chat_template",
                          "chat_template_kwargs", "sequence_len"}) {
    if (from.contains(key)) spec[key] = from[key];
  }
  if (args.style == "auto") section["style"] = StyleOfJob(job);
  if (spec.contains("lora")) spec["lora"]["init_from"] = nullptr;  // the checkpoint holds it all
  spec["checkpoint"]["resume"] = step < 0 ? job.id() : absl::StrCat(job.id(), ":", step);
  return WithMethod(std::move(spec), std::move(section));
}

}  // namespace coxswain::cli
