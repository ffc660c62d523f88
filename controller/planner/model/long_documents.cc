#include "controller/planner/model/long_documents.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/model/read/read_model_config.h"

namespace coxswain::planner {
namespace {

struct Longer {
  int64_t documents = 0;
  int64_t longest = 0;  // tokens
};

void Count(const data::TokenStore& store, int64_t positions, Longer* longer) {
  for (int64_t document = 0; document < store.num_documents(); ++document) {
    const int64_t length = store.length(document);
    longer->documents += length > positions ? 1 : 0;
    longer->longest = std::max(longer->longest, length);
  }
}

}  // namespace

int64_t PositionsOf(const config::JobSpec& job, const model::ModelConfig& model) {
  const int64_t said = model::MaxPositions(job.model_path).value_or(0);
  const auto scaled = [&model](int64_t positions) {
    return static_cast<int64_t>(model.rope.factor * static_cast<double>(positions));
  };
  // Published files give the length before scaling with "linear", either one with "yarn".
  if (model.rope.type == "linear") return scaled(said);
  if (model.rope.type == "yarn") return std::max(said, scaled(model.rope.original_max_position));
  return said;
}

std::vector<std::string> LongDocumentWarnings(const config::JobSpec& job,
                                              const model::ModelConfig& model,
                                              const data::PreparedData& data) {
  const int64_t positions = PositionsOf(job, model);
  if (positions <= 0 || job.sequence_len <= positions) return {};
  Longer longer;
  Count(*data.train, positions, &longer);
  if (data.eval != nullptr) Count(*data.eval, positions, &longer);
  if (longer.documents == 0) return {};
  return {absl::StrCat(longer.documents, " documents are longer than the ", positions,
                       " positions of the model (max_position_embeddings of ", job.model_path,
                       "/config.json); the longest has ", longer.longest,
                       " tokens. The model has not seen such positions: lower sequence_len to ",
                       positions, ", or give the model's config.json a rope_scaling")};
}

}  // namespace coxswain::planner
