#include "controller/data/content_hash.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/hash.h"
#include "common/status_macros.h"

namespace coxswain::data {
namespace {

// Raised when the same inputs come to give other tokens, masks or files.
constexpr int kPreparationVersion = 1;

absl::StatusOr<nlohmann::json> DescribeDatasets(const std::vector<config::DatasetSpec>& datasets,
                                                const Cancelled& cancelled) {
  nlohmann::json described = nlohmann::json::array();
  for (const config::DatasetSpec& dataset : datasets) {
    ASSIGN_OR_RETURN(const std::string contents, Sha256HexOfFile(dataset.path, cancelled));
    described.push_back({{"sha256", contents},
                         {"format", static_cast<int>(dataset.format)},
                         {"prompt_style", static_cast<int>(dataset.prompt_style)},
                         {"weight", dataset.weight}});
  }
  return described;
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
                                        const Cancelled& cancelled) {
  nlohmann::json all = {
      {"version", kPreparationVersion},
      {"tokenizer", tokenizer_fingerprint},
      {"chat_template", job.chat_template},
      {"train_on_inputs", job.train_on_inputs},
      {"on_bad_record", static_cast<int>(job.on_bad_record)},
      {"sequence_len", job.sequence_len},
      {"excess_length", static_cast<int>(job.excess_length)},
      {"val_set_size", job.val_set_size.value_or(0)},
  };
  if (DrawsRecords(job)) all["seed"] = job.train.seed;
  ASSIGN_OR_RETURN(all["datasets"], DescribeDatasets(job.datasets, cancelled));
  ASSIGN_OR_RETURN(all["test_datasets"], DescribeDatasets(job.test_datasets, cancelled));
  return ToHex(Sha256(all.dump()));
}

}  // namespace coxswain::data
