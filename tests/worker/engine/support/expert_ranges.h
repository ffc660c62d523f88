// Plans whose quantised experts are dequantised a few at a time, and what tells their bits apart.
#ifndef COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_EXPERT_RANGES_H_
#define COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_EXPERT_RANGES_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"

namespace coxswain::engine {

// Six experts of two a token, with biases and adapters. A stack has 1,152 or 576 blocks of NF4, an
// expert 192 or 96: ranges begin inside a group of 256 blocks that share a constant.
inline plan::Plan PlanOfRanges(const std::string& format) {
  model::ModelConfig config = SmallConfig();
  config.architecture = "GptOssForCausalLM";
  config.tie_embeddings = false;
  config.hidden_size = 96;
  config.head_dim = 16;
  config.mixture = {
      .experts = 6, .chosen = 2, .width = 64, .renormalise = true, .router_bias = true};
  PlanOptions options;
  options.init = "random";
  options.lora_rank = 2;
  options.lora_parameters = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"};
  options.quantization = format;
  options.sequence_len = 40;
  return MakePlan(config, options);
}

inline plan::Plan AtOnce(plan::Plan plan, int64_t experts) {
  plan.experts_at_once = experts;
  Finish(&plan);
  return plan;
}

inline BinBatch BinsOfRanges(uint64_t seed) {
  return RandomBins({{5, 1, 17, 9}, {31, 3}, {40}}, SmallConfig().vocab_size, seed);
}

inline void ExpectSameSteps(const std::vector<StepStats>& one,
                            const std::vector<StepStats>& other) {
  ASSERT_EQ(one.size(), other.size());
  ASSERT_FALSE(one.empty());
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].global_loss_sum, other[i].global_loss_sum) << "step " << i;
    EXPECT_EQ(one[i].grad_norm, other[i].grad_norm) << "step " << i;
    EXPECT_GT(one[i].grad_norm, 0) << "step " << i;
  }
}

}  // namespace coxswain::engine

#endif  // COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_EXPERT_RANGES_H_
