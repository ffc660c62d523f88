#include "controller/planner/recipe/recipe.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/rules/bin_capacity.h"
#include "common/files/weights/weight_files.h"
#include "common/plan/extents.h"
#include "common/status_macros.h"
#include "controller/planner/model/weights_identity.h"
#include "controller/planner/recipe/recipe_hash.h"
#include "controller/planner/recipe/unit_bins.h"

namespace coxswain::planner {
namespace {

// Ids of all passes are kept: 16 GiB at this bound.
constexpr int64_t kMaxDocumentsOfAllPasses = int64_t{1} << 31;

std::vector<int32_t> Lengths(const data::TokenStore& store) {
  std::vector<int32_t> lengths(static_cast<size_t>(store.num_documents()));
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = store.length(static_cast<int64_t>(i));
  return lengths;
}

absl::StatusOr<int64_t> GlobalBatch(const config::JobSpec& job) {
  const config::TrainSpec& train = job.train;
  int64_t bins = 0;
  if (train.global_batch_size.has_value()) {
    bins = *train.global_batch_size;
  } else if (__builtin_mul_overflow(train.micro_batch_size.value_or(1) * job.workers,
                                    train.gradient_accumulation_steps, &bins)) {
    return absl::InvalidArgumentError("the global batch overflows; set train.global_batch_size");
  }
  if (bins < job.workers) {
    return absl::InvalidArgumentError(
        absl::StrCat("train.global_batch_size is ", bins, " bins for ", job.workers,
                     " workers: every worker needs at least one bin of each step; raise it to ",
                     job.workers, " or lower resources.workers"));
  }
  return bins;
}

// Steps that the job wants once `done` steps of whole passes are packed and the next pass would add
// `next`; at least one of the two limits of the job is set.
int64_t StepsOfPass(const config::TrainSpec& train, int64_t pass, int64_t done, int64_t next) {
  if (train.max_steps.has_value()) return std::min(next, *train.max_steps - done);
  const double left = train.num_epochs.value_or(1.0) - static_cast<double>(pass);
  if (left >= 1.0) return next;
  return std::min(next, static_cast<int64_t>(std::ceil(left * static_cast<double>(next) - 1e-9)));
}

bool NeedsPass(const config::TrainSpec& train, int64_t pass, int64_t done) {
  if (train.max_steps.has_value()) return done < *train.max_steps;
  return static_cast<double>(pass) < train.num_epochs.value_or(1.0);
}

config::KeyValues FactsFromFiles(const RecipeFacts& facts) {
  const auto start = [](const std::string& sha256) {
    return sha256.empty() ? std::string("none") : sha256.substr(0, 12);
  };
  return {{"train.global_batch_size", absl::StrCat(facts.global_batch_bins)},
          {"contents of datasets", start(facts.data_hash)},
          {"contents of base_model", start(facts.weights_identity)},
          {"contents of lora.init_from", start(facts.adapter_identity)}};
}

}  // namespace

absl::Status Recipe::PackPasses(const config::JobSpec& job, std::span<const int32_t> lengths,
                                int64_t of_unit, const data::Cancelled& cancelled) {
  const auto documents = static_cast<int64_t>(lengths.size());
  for (int64_t pass = 0; NeedsPass(job.train, pass, total_steps()); ++pass) {
    if ((pass + 1) * documents > kMaxDocumentsOfAllPasses) {
      return absl::InvalidArgumentError(
          absl::StrCat("the job runs over more than ", kMaxDocumentsOfAllPasses, " documents (",
                       documents, " in each pass); lower train.num_epochs or train.max_steps"));
    }
    ASSIGN_OR_RETURN(data::Bins bins, PackUnits(lengths, of_unit, job, pass, cancelled));
    const int64_t steps =
        StepsOfPass(job.train, pass, total_steps(), CeilDiv(bins.size(), global_batch_bins_));
    passes_.push_back(std::move(bins));
    first_step_of_pass_.push_back(total_steps() + steps);
  }
  return absl::OkStatus();
}

absl::Status Recipe::PackEvaluation(const config::JobSpec& job, const data::TokenStore& store,
                                    int64_t of_unit) {
  const std::vector<int32_t> lengths = Lengths(store);
  for (const int32_t length : lengths) eval_tokens_ += length;
  ASSIGN_OR_RETURN(eval_bins_, PackUnitsInOrder(lengths, of_unit, job));
  return absl::OkStatus();
}

absl::Status Recipe::CountTokens(std::span<const int32_t> lengths, int64_t of_unit,
                                 const config::JobSpec& job, const data::Cancelled& cancelled) {
  const int64_t capacity = config::BinCapacity(job);
  const auto tokens = [&](BinRef bin) {
    int64_t sum = 0;
    for (const int64_t document : documents(bin)) sum += lengths[static_cast<size_t>(document)];
    return sum;
  };
  for (int64_t step = 0; step < total_steps(); ++step) {
    RETURN_IF_ERROR(data::CheckCancelled(cancelled));
    for (const BinRef bin : step_bins(step)) train_tokens_ += tokens(bin);
  }
  double squares = 0, sum = 0;
  for (const int32_t length : lengths) {
    squares += static_cast<double>(length) * static_cast<double>(length);
    sum += static_cast<double>(length);
  }
  attention_span_ = std::llround(squares / sum);
  const bool packs = job.packing.strategy != config::PackingStrategy::kNone;
  int64_t filled = 0, lost = 0;
  for (int64_t bin = 0; bin < bins_per_pass(0); ++bin) {
    const int64_t held = tokens({.pass = 0, .index = bin});
    const auto count = static_cast<int64_t>(bins(0).bin(bin).size());
    filled += held;
    if (packs && count + of_unit > job.packing.max_documents_per_bin) lost += capacity - held;
  }
  const auto slots = static_cast<double>(bins_per_pass(0) * capacity);
  packing_efficiency_ = static_cast<double>(filled) / slots;
  slots_lost_ = static_cast<double>(lost) / slots;
  return absl::OkStatus();
}

absl::StatusOr<Recipe> Recipe::Make(const config::JobSpec& job, const model::ModelConfig& model,
                                    const data::PreparedData& data,
                                    const data::Cancelled& cancelled) {
  Recipe recipe;
  ASSIGN_OR_RETURN(recipe.global_batch_bins_, GlobalBatch(job));
  const std::vector<int32_t> lengths = Lengths(*data.train);
  if (lengths.empty()) return absl::InvalidArgumentError("the training set has no document");
  const int64_t of_unit = data.documents_per_unit;
  RETURN_IF_ERROR(recipe.PackPasses(job, lengths, of_unit, cancelled));
  if (data.eval != nullptr) {
    RETURN_IF_ERROR(recipe.PackEvaluation(job, *data.eval, of_unit));
  }
  RETURN_IF_ERROR(recipe.CountTokens(lengths, of_unit, job, cancelled));
  recipe.learning_rate_ = MakeLearningRate(job.train, recipe.total_steps());

  RecipeFacts facts{.job = job,
                    .model = model,
                    .passes = recipe.passes_,
                    .data_hash = data.content_hash,
                    .weights_identity = {},
                    .adapter_identity = {},
                    .global_batch_bins = recipe.global_batch_bins_,
                    .total_steps = recipe.total_steps()};
  if (job.init != BaseInit::kRandom) {
    ASSIGN_OR_RETURN(facts.weights_identity, WeightsIdentity(job.model_path));
    ASSIGN_OR_RETURN(const std::string weights, FindWeights(job.model_path));
    recipe.weights_ = std::filesystem::path(weights).filename().string();
  }
  if (job.adapter != config::Adapter::kNone && job.lora.init_from.has_value()) {
    ASSIGN_OR_RETURN(facts.adapter_identity, WeightsIdentity(*job.lora.init_from));
  }
  recipe.hash_ = RecipeHash(facts);
  recipe.stem_ = RecipeStem(facts);
  recipe.facts_ = FactsFromFiles(facts);
  return recipe;
}

double Recipe::single_document_bins() const {
  int64_t single = 0;
  for (int64_t i = 0; i < bins_per_pass(0); ++i) single += bins(0).bin(i).size() == 1 ? 1 : 0;
  return static_cast<double>(single) / static_cast<double>(bins_per_pass(0));
}

int64_t Recipe::pass_of_step(int64_t step) const {
  const auto after = std::upper_bound(first_step_of_pass_.begin(), first_step_of_pass_.end(), step);
  return after - first_step_of_pass_.begin() - 1;
}

std::vector<BinRef> Recipe::step_bins(int64_t step) const {
  const int64_t pass = pass_of_step(step);
  const int64_t first =
      (step - first_step_of_pass_[static_cast<size_t>(pass)]) * global_batch_bins_;
  const int64_t end = std::min(first + global_batch_bins_, bins_per_pass(pass));
  std::vector<BinRef> bins;
  bins.reserve(static_cast<size_t>(end - first));
  for (int64_t index = first; index < end; ++index) bins.push_back({.pass = pass, .index = index});
  return bins;
}

}  // namespace coxswain::planner
