// Jobs, models and data sets small enough to reason about.
#ifndef COXSWAIN_TESTS_CONTROLLER_PLANNER_JOB_FIXTURE_H_
#define COXSWAIN_TESTS_CONTROLLER_PLANNER_JOB_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/config/job_spec.h"
#include "common/data/token_store_writer.h"
#include "common/model/model_config.h"
#include "controller/data/prepare/prepare.h"
#include "gtest/gtest.h"
#include "tests/common/config/default_spec.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::planner {

// Random initialisation: no weight file is needed.
inline config::JobSpec SmallJob() {
  config::JobSpec job = config::DefaultSpec();
  job.name = "small";
  job.model_path = "/models/small";
  job.init = BaseInit::kRandom;
  job.adapter = config::Adapter::kLora;
  job.sequence_len = 64;
  job.workers = 2;
  job.train.global_batch_size = 4;
  job.train.num_epochs = 1.0;
  job.train.warmup_ratio = 0.1;
  return job;
}

inline model::ModelConfig SmallModel() {
  return {.architecture = "Qwen2ForCausalLM",
          .vocab_size = 128,
          .hidden_size = 16,
          .intermediate_size = 40,
          .num_layers = 3,
          .num_heads = 4,
          .num_kv_heads = 2,
          .head_dim = 4,
          .tie_embeddings = true,
          .qkv_bias = true,
          .rope = {},
          .layer_windows = {0, 0, 0}};
}

// Experts whose rows are whole blocks of MXFP4.
inline model::ModelConfig SmallExperts() {
  model::ModelConfig model = SmallModel();
  model.architecture = "GptOssForCausalLM";
  model.hidden_size = 32;
  model.head_dim = 8;
  model.tie_embeddings = false;
  model.output_bias = true;
  model.mixture = {
      .experts = 6, .chosen = 2, .width = 64, .renormalise = true, .router_bias = true};
  return model;
}

// A store of documents of the given lengths, every token but the last a target.
inline std::unique_ptr<data::TokenStore> Store(const std::string& path,
                                               const std::vector<int32_t>& lengths) {
  auto writer = data::TokenStoreWriter::Create(path);
  EXPECT_TRUE(writer.ok()) << writer.status();
  for (const int32_t length : lengths) {
    const std::vector<int32_t> ids(static_cast<size_t>(length), 1);
    std::vector<uint8_t> bits(static_cast<size_t>((length + 7) / 8), 0);
    for (int32_t t = 0; t + 1 < length; ++t) {
      bits[static_cast<size_t>(t / 8)] |= static_cast<uint8_t>(1 << (t % 8));
    }
    EXPECT_TRUE((*writer)->Add(ids, bits, 1).ok());
  }
  EXPECT_TRUE((*writer)->Finish().ok());
  auto store = data::TokenStore::Open(path);
  EXPECT_TRUE(store.ok()) << store.status();
  return std::move(*store);
}

// Lengths between 5 and 44, different for neighbours.
inline std::vector<int32_t> Lengths(int count) {
  std::vector<int32_t> lengths;
  for (int i = 0; i < count; ++i) lengths.push_back(5 + (i * 17) % 40);
  return lengths;
}

inline data::PreparedData DataOf(const std::vector<int32_t>& lengths,
                                 const std::vector<int32_t>& eval_lengths) {
  const support::ScratchFolder folder;  // what is mapped outlives its name
  data::PreparedData data;
  data.train = Store(folder.path() + "/train.tokens", lengths);
  if (!eval_lengths.empty()) data.eval = Store(folder.path() + "/eval.tokens", eval_lengths);
  data.train_stats.records_read = data.train_stats.documents = static_cast<int64_t>(lengths.size());
  data.train_stats.tokens = data.train->num_tokens();
  data.train_stats.targets = data.train->num_targets();
  data.content_hash = std::string(64, 'a');
  return data;
}

inline data::PreparedData SmallData(int documents = 101, int eval_documents = 0) {
  return DataOf(Lengths(documents), Lengths(eval_documents));
}

}  // namespace coxswain::planner

#endif  // COXSWAIN_TESTS_CONTROLLER_PLANNER_JOB_FIXTURE_H_
