#include "common/plan/expert_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/model/family.h"
#include "common/model/parameter_table.h"
#include "common/plan/buffers/buffer_rows.h"
#include "common/plan/shard_map.h"
#include "common/plan/unit_fetch.h"

namespace coxswain::plan {
namespace expert_ranges_test {
namespace {

using Sizes = std::vector<int64_t>;

// Two blocks of experts of `width`: gate and up are 2 x width x hidden an expert.
Plan MakePlan(const std::string& format, int64_t experts, int64_t hidden = 32, int64_t width = 64) {
  Plan plan;
  model::ModelConfig& c = plan.model;
  c.architecture = "GptOssForCausalLM";
  c.vocab_size = 64;
  c.hidden_size = hidden;
  c.num_layers = 2;
  c.num_heads = 2;
  c.num_kv_heads = 1;
  c.head_dim = 8;
  c.layer_windows = {0, 0};
  c.mixture = {.experts = experts, .chosen = 2, .width = width, .router_bias = true};
  plan.architecture = model::ArchitectureOf(c);
  plan.parameters = model::BaseParameterTable(plan.architecture);
  plan.quantization = *FromString<Quantization>(format);
  plan.sequence_len = plan.lm_head_chunk_tokens = 8;
  return plan;
}

TEST(ExpertRangesTest, SizesAreHalvesOfAll) {
  for (const char* format : {"nf4", "nf4_double", "int8", "mxfp4"}) {
    EXPECT_EQ(ExpertRangeSizes(MakePlan(format, 128)), (Sizes{128, 64, 32, 16, 8, 4, 2, 1}));
    EXPECT_EQ(ExpertRangeSizes(MakePlan(format, 6)), (Sizes{6, 3, 1}));
  }
  EXPECT_TRUE(ExpertRangeSizes(MakePlan("", 6)).empty());
}

// An expert of 36 x 4 elements of down: 4 of them, or all, begin with a block of 64.
TEST(ExpertRangesTest, ARangeBeginsWithABlock) {
  EXPECT_EQ(ExpertRangeSizes(MakePlan("nf4", 12, 36, 4)), (Sizes{12}));
  EXPECT_EQ(ExpertRangeSizes(MakePlan("nf4", 16, 36, 4)), (Sizes{16, 8, 4}));
  EXPECT_EQ(ExpertRangeSizes(MakePlan("int8", 12, 36, 4)), (Sizes{12, 6, 3, 1}));
}

TEST(ExpertRangesTest, BytesAreThoseOfTheLargestRange) {
  Plan plan = MakePlan("mxfp4", 6);
  EXPECT_EQ(ExpertRangeBytes(plan), 0);
  for (const Precision dtype : {Precision::kFloat32, Precision::kBfloat16}) {
    plan.compute_dtype = dtype;
    for (const int64_t experts : {1, 4, 6}) {
      plan.experts_at_once = experts;
      EXPECT_EQ(ExpertRangeBytes(plan),
                (plan.compute_dtype == Precision::kFloat32 ? 4 : 2) * experts * 4096);
    }
  }
}

TEST(ExpertRangesTest, RefusesANumberThatNoStackHas) {
  const auto message = [](Plan plan, int64_t experts) {
    plan.experts_at_once = experts;
    return std::string(CheckExpertRanges(plan).message());
  };
  EXPECT_EQ(message(MakePlan("nf4", 16, 36, 4), 4), "");
  EXPECT_EQ(message(MakePlan("nf4", 16, 36, 4), 16), "");
  EXPECT_EQ(message(MakePlan("nf4", 16, 36, 4), 17), "plan: experts_at_once is 17, wanted 0..16");
  EXPECT_EQ(message(MakePlan("nf4", 16, 36, 4), -1), "plan: experts_at_once is -1, wanted 0..16");
  EXPECT_NE(message(MakePlan("nf4", 16, 36, 4), 2).find("wanted a multiple of 64"),
            std::string::npos);
  EXPECT_EQ(message(MakePlan("", 16), 4),
            "plan: experts_at_once is 4, wanted 0: no expert is quantised");
}

// Linears that are quantised too lie in slots, as without ranges.
TEST(ExpertRangesTest, ExpertsAreAFlatThatIsInNoSlot) {
  for (const int32_t zero : {0, 3}) {
    for (const char* format : {"nf4_double", "mxfp4"}) {
      Plan plan = MakePlan(format, 6);
      plan.shard = zero == 3 ? 2 : 1;
      plan.zero = zero;
      plan.experts_at_once = 2;
      const ShardMap map(plan);
      int in_ranges = 0;
      for (const Flat& flat : map.flats) {
        if (!flat.in_ranges) continue;
        ++in_ranges;
        EXPECT_TRUE(flat.quantized());
        EXPECT_FALSE(flat.weights_slotted());
        EXPECT_EQ(flat.packed_slot >= 0, zero == 3);
        EXPECT_EQ(flat.parameters.size(), 2u);
      }
      EXPECT_EQ(in_ranges, 2);
      const UnitFetch block = UnitFetches(plan, map)[1];
      EXPECT_EQ(block.dequantized.size(), plan.quantization == Quantization::kMxfp4 ? 0u : 4u);
      EXPECT_EQ(block.slotted, zero == 3 || plan.quantization != Quantization::kMxfp4);
      const bool gathered =
          std::any_of(block.gathers.begin(), block.gathers.end(),
                      [&](const GatherPart& part) { return map.flats[part.flat].in_ranges; });
      EXPECT_EQ(gathered, zero == 3);
      for (const Buffer& row : BufferRows(plan)) {
        if (row.name != "packed_slot") continue;
        EXPECT_EQ(row.bytes, 2 * map.packed_slot);
      }
    }
  }
}

}  // namespace
}  // namespace expert_ranges_test
}  // namespace coxswain::plan
