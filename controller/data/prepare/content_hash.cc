#include "controller/data/prepare/content_hash.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/config/rules/bin_capacity.h"
#include "common/config/schema/schema.h"
#include "common/files/hash.h"
#include "common/status_macros.h"
#include "controller/data/readers/bytes/file_kind.h"
#include "controller/data/sources/dataset_files.h"

namespace coxswain::data {
namespace {

// The rules since which tokens that the job adds count in content, known ones too.
constexpr int64_t kAddedTokensCount = 2;
// The rules since which the model's ends decide where turns end.
constexpr int64_t kEndsCount = 2;

nlohmann::json DescribeFields(const config::RecordFields& fields) {
  const std::pair<const char*, const std::string*> all[] = {
      {"field_messages", &fields.messages},     {"field_tools", &fields.tools},
      {"field_system", &fields.system},         {"field_instruction", &fields.instruction},
      {"field_input", &fields.input},           {"field_output", &fields.output},
      {"field_history", &fields.history},       {"field_prompt", &fields.prompt},
      {"field_completion", &fields.completion}, {"field_text", &fields.text},
      {"message_role_key", &fields.role},       {"message_content_key", &fields.content},
      {"field_chosen", &fields.chosen},         {"field_rejected", &fields.rejected},
      {"field_label", &fields.label},
  };
  nlohmann::json described = nlohmann::json::object();
  for (const auto& [key, name] : all) {
    const config::Key& row = *config::FindKey(absl::StrCat("spec.datasets[].", key));
    const std::string_view known = row.before != nullptr ? row.before : row.def;
    if (*name != (known == "null" || known == "''" ? "" : known)) described[key] = *name;
  }
  if (!fields.roles.empty()) described["roles"] = fields.roles;
  return described;
}

// One hash, or a list of one for each file. CSV and text are marked, as a name alone may tell them.
absl::StatusOr<nlohmann::json> DescribeFiles(const config::DatasetSpec& dataset,
                                             const Cancelled& cancelled) {
  ASSIGN_OR_RETURN(const DatasetFiles files, ListDatasetFiles(dataset));
  nlohmann::json hashes = nlohmann::json::array();
  for (const std::string& path : files.paths) {
    ASSIGN_OR_RETURN(std::string hash, Sha256HexOfFile(path, cancelled));
    ASSIGN_OR_RETURN(const FileKind kind, KindOf(path));
    if (kind == FileKind::kCsv) hash.insert(0, "csv:");
    if (kind == FileKind::kText) hash.insert(0, "text:");
    hashes.push_back(std::move(hash));
  }
  return hashes.size() == 1 ? hashes[0] : hashes;
}

// Which records of the files are read, where it is not all: [[files, slice], ...].
absl::StatusOr<nlohmann::json> DescribeRows(const config::DatasetSpec& dataset) {
  ASSIGN_OR_RETURN(const DatasetFiles files, ListDatasetFiles(dataset));
  nlohmann::json rows = nlohmann::json::array();
  bool whole = true;
  for (const DatasetPart& part : files.parts) {
    SplitSlice unnamed = part.rows;
    unnamed.split = "rows";  // what files it has is in their hashes
    rows.push_back({part.files, SplitText(unnamed)});
    whole = whole && part.rows.whole();
  }
  return whole ? nlohmann::json::array() : rows;
}

absl::StatusOr<nlohmann::json> DescribeDatasets(const std::vector<config::DatasetSpec>& datasets,
                                                const Cancelled& cancelled) {
  nlohmann::json described = nlohmann::json::array();
  for (const config::DatasetSpec& dataset : datasets) {
    ASSIGN_OR_RETURN(nlohmann::json contents, DescribeFiles(dataset, cancelled));
    described.push_back({{"sha256", std::move(contents)},
                         {"format", static_cast<int>(dataset.format)},
                         {"prompt_style", static_cast<int>(dataset.prompt_style)},
                         {"weight", dataset.weight}});
    nlohmann::json fields = DescribeFields(dataset.fields);
    if (!fields.empty()) described.back()["fields"] = std::move(fields);
    if (dataset.special_tokens != config::SpecialTokens::kAuto) {
      described.back()["special_tokens"] = static_cast<int>(dataset.special_tokens);
    }
    if (dataset.max_samples) described.back()["max_samples"] = *dataset.max_samples;
    ASSIGN_OR_RETURN(nlohmann::json rows, DescribeRows(dataset));
    if (!rows.empty()) described.back()["rows"] = std::move(rows);
  }
  return described;
}

void DescribeTargets(const config::JobSpec& job, nlohmann::json* all) {
  const std::string& kwargs = job.chat_template_kwargs;
  if (!kwargs.empty() && kwargs != "{}") (*all)["chat_template_kwargs"] = kwargs;
  if (job.roles_to_train != std::vector<std::string>{"assistant"}) {
    (*all)["roles_to_train"] = job.roles_to_train;
  }
  if (job.train_on != config::TrainOn::kAll) {
    (*all)["train_on"] = static_cast<int>(job.train_on);
  }
  if (job.train_on_eos != config::TrainOnEos::kTurn) {
    (*all)["train_on_eos"] = static_cast<int>(job.train_on_eos);
  }
}

// Whether the seed decides which records are used, or how often.
bool DrawsRecords(const config::JobSpec& job) {
  return job.val_set_size.value_or(0) > 0 ||
         std::any_of(job.datasets.begin(), job.datasets.end(),
                     [](const config::DatasetSpec& d) { return d.weight != std::floor(d.weight); });
}

}  // namespace

absl::StatusOr<std::string> ContentHash(const config::JobSpec& job,
                                        const std::string& tokenizer_fingerprint,
                                        const std::string& chat_template,
                                        const std::vector<std::string>& ends,
                                        const Cancelled& cancelled) {
  nlohmann::json all = {
      {"version", job.data_rules},
      {"tokenizer", tokenizer_fingerprint},
      {"chat_template", chat_template},
      {"train_on_inputs", job.train_on_inputs},
      {"on_bad_record", static_cast<int>(job.on_bad_record)},
      {"sequence_len", job.sequence_len},
      {"excess_length", static_cast<int>(job.excess_length)},
      {"val_set_size", job.val_set_size.value_or(0)},
  };
  DescribeTargets(job, &all);
  if (config::TrainsPreferences(job)) {
    all["units"] = job.method == "kto" ? "labelled" : "pairs";
    all["documents_per_unit"] = config::DocumentsPerUnit(job);
  }
  if (job.method == "reward") all["units"] = "pairs with margins";
  if (job.method == "classification") {
    all["classification"] = {{"num_labels", job.classification.num_labels},
                             {"label_names", job.classification.label_names},
                             {"problem", job.classification.problem}};
  }
  if (job.data_rules >= kAddedTokensCount && !job.added_tokens.empty()) {
    all["added_tokens"] = job.added_tokens;
  }
  if (job.data_rules >= kEndsCount && !ends.empty()) all["ends"] = ends;
  if (DrawsRecords(job)) all["seed"] = job.train.seed;
  ASSIGN_OR_RETURN(all["datasets"], DescribeDatasets(job.datasets, cancelled));
  ASSIGN_OR_RETURN(all["test_datasets"], DescribeDatasets(job.test_datasets, cancelled));
  return ToHex(Sha256(all.dump()));
}

}  // namespace coxswain::data
