#include "controller/planner/memory/buffer_table.h"

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "common/plan/storage.h"
#include "controller/planner/model/parameter_groups.h"
#include "gtest/gtest.h"
#include "tests/controller/planner/job_fixture.h"

namespace coxswain::planner {
namespace {

// T = 128 tokens, D = 2 x (32 + 1), C = 48, so R = 144. H 16, I 40, Q 16, K 8, P 32, V 128, hd 4.
class CudaTableTest : public testing::Test {
 protected:
  CudaTableTest() {
    job_.adapter = config::Adapter::kNone;
    plan_.model = SmallModel();
    plan_.device = DeviceKind::kCuda;
    plan_.compute_dtype = Precision::kBfloat16;
    plan_.sequence_len = 64;
    plan_.micro_batch_bins = 2;
    plan_.lm_head_chunk_tokens = 48;
  }

  void Make() {
    EXPECT_TRUE(MakeParameters(job_, &plan_).ok());
    rows_.clear();
    for (const plan::Buffer& buffer : BufferTable(plan_)) rows_[buffer.name] = buffer;
  }

  int64_t Bytes(const std::string& name) { return At(name).bytes; }
  std::string Owner(const std::string& name) { return At(name).alias_of; }
  plan::Buffer At(const std::string& name) {
    const auto found = rows_.find(name);
    if (found != rows_.end()) return found->second;
    ADD_FAILURE() << "no row " << name;
    return {};
  }
  // Elements of the flats (common/plan/shard_map.h), padded.
  int64_t Elements(bool trainable_only) const {
    int64_t sum = 0;
    for (const auto& [flat, elements] : Flats()) {
      if (flat.second != 2 || !trainable_only) sum += elements;
    }
    return sum;
  }
  // By (unit, kind); kinds: 0 bfloat16 gradient, 1 float32 gradient, 2 frozen.
  std::map<std::pair<int32_t, int>, int64_t> Flats() const {
    std::map<std::pair<int32_t, int>, int64_t> flats;
    for (const model::Parameter& p : plan_.parameters) {
      const plan::ParameterStorage storage = plan::StorageOf(plan_, p);
      const int kind = !p.trainable() ? 2 : storage.gradient == plan::Storage::kBfloat16 ? 0 : 1;
      flats[{p.unit, kind}] += p.elements();
    }
    const int64_t alignment = 64 * plan_.shard;
    for (auto& [flat, n] : flats) n = (n + alignment - 1) / alignment * alignment;
    return flats;
  }

  config::JobSpec job_ = SmallJob();
  plan::Plan plan_;
  std::map<std::string, plan::Buffer> rows_;
};

TEST_F(CudaTableTest, StatesOfFullTrainingWithFloatMasters) {
  Make();
  const int64_t g = Elements(true);
  EXPECT_EQ(Bytes("weights"), 2 * Elements(false));
  EXPECT_EQ(Bytes("master"), 4 * g);
  EXPECT_EQ(Bytes("gradients"), 4 * g);
  EXPECT_EQ(Bytes("adam.m"), 4 * g);
  EXPECT_EQ(Bytes("snapshot"), 12 * g);
  EXPECT_EQ(At("snapshot").memory_class, plan::MemoryClass::kHost);
}

TEST_F(CudaTableTest, StatesWithBfloat16MastersAndGradients) {
  plan_.master_dtype = plan_.gradient_dtype = Precision::kBfloat16;
  Make();
  int64_t matrices = 0;  // the tied embedding, vectors: float32
  for (const auto& [flat, elements] : Flats()) {
    EXPECT_TRUE(flat.second != 0 || (flat.first >= 1 && flat.first <= 3));
    if (flat.second == 0) matrices += elements;
  }
  const int64_t g = Elements(true);
  EXPECT_EQ(rows_.count("master"), 0u);
  EXPECT_EQ(Bytes("gradients"), 4 * (g - matrices) + 2 * matrices);
  EXPECT_EQ(Bytes("snapshot"), 10 * g);
}

// gate and down of three blocks have 4,800 elements, all others less; up begins inside a block.
TEST_F(CudaTableTest, StatesInBlocks) {
  plan_.model.intermediate_size = 300;
  plan_.optimizer = OptimizerKind::kAdamW8bit;
  for (const int32_t shard : {1, 3}) {
    plan_.shard = shard;
    plan_.zero = shard > 1 ? 1 : 0;
    Make();
    int64_t in_blocks = 0, others = 0;
    for (const model::Parameter& p : plan_.parameters) {
      const bool blocks = p.name.find("gate_proj") != std::string::npos ||
                          p.name.find("down_proj") != std::string::npos;
      (blocks ? in_blocks : others) += p.elements();
    }
    const int64_t codes = Bytes("adam.m"), values = Bytes("master") / 4;
    EXPECT_EQ(codes % 256, 0);
    EXPECT_GE(codes, in_blocks / shard);
    EXPECT_LT(codes, values);  // embedding and final norm have none
    EXPECT_EQ(Bytes("adam.v"), codes);
    EXPECT_EQ(Bytes("adam.m_absmax"), codes / 64);
    EXPECT_EQ(Bytes("adam.v_absmax"), codes / 64);
    EXPECT_EQ(Bytes("adam.m_small"), 4 * others);  // of every rank
    EXPECT_EQ(Bytes("adam.v_small"), 4 * others);
    EXPECT_EQ(Bytes("snapshot"), 2 * (codes + codes / 64 + 4 * others) + 4 * values);
    // Gaps: a tensor that is no part of a whole begins at a multiple of 256.
    EXPECT_LT(values * shard - in_blocks - others, 256 * (64 + 5 * shard));
  }
  plan_.optimizer = OptimizerKind::kAdamWBf16;
  Make();
  EXPECT_EQ(Bytes("adam.m"), Bytes("master") / 2);
  EXPECT_EQ(rows_.count("adam.m_small"), 0u);
}

TEST_F(CudaTableTest, RanksShareMoreByStage) {
  plan_.gradient_dtype = Precision::kBfloat16;
  plan_.shard = 4;
  plan_.zero = 1;
  Make();
  const int64_t g = Elements(true);
  int64_t blocks = 0, block = 0, block_vectors = 0, outside = 0;
  for (const auto& [flat, elements] : Flats()) {
    const bool in_block = flat.first >= 1 && flat.first <= 3;
    (in_block ? blocks : outside) += elements;
    if (flat.first == 1) (flat.second == 0 ? block : block_vectors) += elements;
  }
  EXPECT_EQ(Bytes("weights"), 2 * g);
  EXPECT_EQ(Bytes("gradients"), 2 * 3 * block + 4 * (3 * block_vectors + outside));
  for (const char* row : {"master", "adam.m", "adam.v"}) EXPECT_EQ(Bytes(row), g) << row;
  EXPECT_EQ(Bytes("snapshot"), 3 * g);
  EXPECT_EQ(rows_.count("weight_slots") + rows_.count("gradient_slots"), 0u);

  plan_.zero = 2;  // of blocks: two slots, and the owned quarter in float32
  Make();
  EXPECT_EQ(Bytes("weights"), 2 * g);
  EXPECT_EQ(Bytes("gradients"), blocks + 4 * outside);
  EXPECT_EQ(Bytes("gradient_slots"), 2 * (2 * block + 4 * block_vectors));
  EXPECT_EQ(rows_.count("weight_slots"), 0u);

  plan_.zero = 3;
  Make();
  EXPECT_EQ(Bytes("weights"), 2 * (outside + blocks / 4));
  EXPECT_EQ(Bytes("weight_slots"), 2 * 2 * (block + block_vectors));
  EXPECT_EQ(Bytes("adam.m"), g);
}

TEST_F(CudaTableTest, AdaptersKeepFloatMastersAndGradients) {
  job_.adapter = config::Adapter::kLora;
  plan_.master_dtype = plan_.gradient_dtype = Precision::kBfloat16;
  Make();
  const int64_t g = Elements(true);
  EXPECT_EQ(Bytes("weights"), 2 * Elements(false));
  EXPECT_EQ(Bytes("master"), 4 * g);
  EXPECT_EQ(Bytes("gradients"), 4 * g);
  EXPECT_EQ(Bytes("snapshot"), 12 * g);
  EXPECT_EQ(Bytes("layer1.lora_h"), 2 * 128 * job_.lora.r * 7);
}

TEST_F(CudaTableTest, DoraKeepsOutputsOfAdaptedPacks) {
  job_.adapter = config::Adapter::kLora;
  job_.lora.use_dora = true;
  job_.lora.target_modules = {"v_proj", "gate_proj", "down_proj"};
  plan_.recompute = RecomputeLevel::kFfn;
  Make();
  EXPECT_EQ(Bytes("layer1.qkv_u"), 2 * 128 * 32);
  EXPECT_EQ(rows_.count("layer1.o_u"), 0u);
  EXPECT_EQ(Bytes("layer0.gate_up_u"), Bytes("layer0.gate_up"));
  EXPECT_EQ(Owner("layer1.gate_up_u"), "layer0.gate_up_u");  // computed again
  EXPECT_EQ(Bytes("layer1.down_u"), Bytes("dres"));
  const int64_t columns = 32 + 2 * plan_.model.intermediate_size + plan_.model.hidden_size;
  for (const char* row : {"dora.squares", "dora.norm", "dora.factor"}) {
    EXPECT_EQ(Bytes(row), 4 * plan_.model.num_layers * columns) << row;
  }
}

TEST_F(CudaTableTest, Float32ComputeHasNoMasterBesideTheWeights) {
  plan_.compute_dtype = Precision::kFloat32;
  Make();
  EXPECT_EQ(Bytes("weights"), 4 * Elements(false));
  EXPECT_EQ(rows_.count("master"), 0u);
  EXPECT_EQ(Bytes("snapshot"), 12 * Elements(true));
  EXPECT_EQ(Bytes("layer0.qkv"), 4 * 128 * 32);
}

TEST_F(CudaTableTest, ActivationsAreOfTheComputeTypeAndStatisticsFloat) {
  plan_.model.qk_norm = true;
  Make();
  EXPECT_EQ(Bytes("layer1.residual_in"), 2 * 128 * 16);
  EXPECT_EQ(Bytes("layer1.qkv"), 2 * 128 * 32);
  EXPECT_EQ(Bytes("layer1.qk_raw"), 2 * 128 * (16 + 8));
  EXPECT_EQ(Bytes("layer1.qk_rstd"), 4 * 128 * (4 + 2));
  EXPECT_EQ(Bytes("layer1.rstd1"), 4 * 128);
  EXPECT_EQ(Bytes("layer1.lse"), 4 * 128 * 4);
  EXPECT_EQ(Bytes("layer1.gate_up"), 2 * 128 * 80);
  EXPECT_EQ(Bytes("final.norm"), 2 * 128 * 16);
  EXPECT_EQ(Bytes("final.rstd"), 4 * 128);
}

TEST_F(CudaTableTest, WorkspaceRows) {
  Make();
  EXPECT_EQ(Bytes("head.logits"), 2 * 48 * 128);
  EXPECT_EQ(Bytes("head.loss"), 4 * 48);
  EXPECT_EQ(Bytes("batch.tokens"), 4 * 128);
  EXPECT_EQ(Bytes("batch.labels"), 4 * 144);
  EXPECT_EQ(Bytes("batch.rows"), 4 * 144);
  EXPECT_EQ(Bytes("batch.cu_seqlens"), 4 * (2 * 33 + 1));
  EXPECT_EQ(Bytes("rope.cos"), 2 * 64 * 4);
  EXPECT_EQ(Bytes("scalars"), 512);
  const auto trained =
      std::count_if(plan_.parameters.begin(), plan_.parameters.end(),
                    [](const model::Parameter& parameter) { return parameter.trainable(); });
  EXPECT_EQ(Bytes("norm.tensors"), 32 * trained);
  EXPECT_EQ(Bytes("norm.chunks"), 16 * trained);  // none is longer than a chunk
  EXPECT_EQ(Bytes("verified.values"), 32 * trained);
  EXPECT_EQ(Bytes("verified.norms"), 16 * trained);
  EXPECT_EQ(Bytes("verified.bits"), 16 * trained);
  EXPECT_EQ(Bytes("verified.sums"), 32 * trained + 8);
  EXPECT_EQ(Bytes("scratch"), int64_t{65} << 20);  // the GEMM's
}

// Whole vectors of 16 bytes: 8 elements of bfloat16, 4 of float32.
TEST_F(CudaTableTest, RowsOfLogitsStartAtMultiplesOfAVector) {
  for (const auto& [vocab, bfloat16, float32] :
       {std::tuple{128, 128, 128}, {129, 136, 132}, {132, 136, 132}, {135, 136, 136}}) {
    plan_.model.vocab_size = vocab;
    plan_.compute_dtype = Precision::kBfloat16;
    Make();
    EXPECT_EQ(Bytes("head.logits"), 2 * 48 * bfloat16) << vocab;
    plan_.compute_dtype = Precision::kFloat32;
    Make();
    EXPECT_EQ(Bytes("head.logits"), 4 * 48 * float32) << vocab;
  }
}

TEST_F(CudaTableTest, AttentionScratchStaysWithinItsBudget) {
  plan_.sequence_len = 65536;
  Make();
  // T = 2 x 65536; T Q (4 x 65536/128 + 4) is 4.0 GiB and 8 MiB, above the budget.
  EXPECT_EQ(Bytes("scratch"), (int64_t{4} << 30) + (1 << 20));
  plan_.attention_deterministic = false;
  Make();
  EXPECT_EQ(Bytes("scratch"), (int64_t{1} << 20) + (int64_t{64} << 20));
}

// Rows of layers 0 .. 2 that do not own their memory, with whose they use.
std::vector<std::string> Aliases(const std::vector<plan::Buffer>& rows) {
  std::vector<std::string> aliases;
  for (const plan::Buffer& row : rows) {
    if (row.alias_of.empty() || row.name == "branch") continue;  // branch shares at every level
    EXPECT_EQ(row.bytes, 0);
    aliases.push_back(row.name + "=" + row.alias_of);
  }
  return aliases;
}

TEST_F(CudaTableTest, RecomputeOfNormsAndProducts) {
  plan_.recompute = RecomputeLevel::kNormSwiglu;
  Make();
  EXPECT_EQ(Aliases(BufferTable(plan_)),
            (std::vector<std::string>{"layer1.ln1=layer0.ln1", "layer1.ln2=layer0.ln2",
                                      "layer1.swiglu=layer0.swiglu", "layer2.ln1=layer0.ln1",
                                      "layer2.ln2=layer0.ln2", "layer2.swiglu=layer0.swiglu"}));
  plan_.recompute = RecomputeLevel::kFfn;
  Make();
  EXPECT_EQ(Owner("layer2.gate_up"), "layer0.gate_up");
  EXPECT_EQ(Owner("layer2.swiglu"), "layer0.swiglu");
  EXPECT_EQ(Owner("layer2.qkv"), "");
  EXPECT_EQ(Owner("branch"), "dnorm");
}

// GLM-4.5: a dense block, then two with 6 experts of 64, 2 of a token, and an MLP of 40 beside.
class MixtureTableTest : public CudaTableTest {
 protected:
  MixtureTableTest() {
    plan_.model = SmallExperts();
    plan_.model.architecture = "Glm4MoeForCausalLM";
    plan_.model.output_bias = false;
    plan_.model.mixture = {.experts = 6,
                           .chosen = 2,
                           .width = 64,
                           .shared_width = 40,
                           .score = "sigmoid",
                           .renormalise = true,
                           .dense_layers = {0}};
    job_.adapter = config::Adapter::kLora;
    job_.lora.target_parameters = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"};
  }

  // Of the level, and the rows that layer 2 has no memory for.
  int64_t Activations(const std::string& level, std::vector<std::string>* shared) {
    plan_.recompute = *FromString<RecomputeLevel>(level);
    Make();
    int64_t bytes = 0;
    shared->clear();
    for (const auto& [name, row] : rows_) {
      bytes += row.memory_class == plan::MemoryClass::kActivations ? row.bytes : 0;
      if (name.starts_with("layer2.") && !row.alias_of.empty()) shared->push_back(name.substr(7));
    }
    return bytes;
  }
};

// What a router chose, attention and what is beside its projections are kept at each.
TEST_F(MixtureTableTest, LevelsShareTheRowsOfExpertsInParts) {
  std::vector<std::string> shared;
  const int64_t none = Activations("none", &shared);
  EXPECT_TRUE(shared.empty());
  const int64_t norms = Activations("norm_swiglu", &shared);
  EXPECT_EQ(shared, (std::vector<std::string>{"expert_act", "expert_in", "ln1", "ln2", "swiglu"}));
  const int64_t outputs = Activations("expert_out", &shared);
  EXPECT_EQ(shared, (std::vector<std::string>{"expert_act", "expert_in", "expert_out",
                                              "experts_down_h", "ln1", "ln2", "swiglu"}));
  const int64_t ffn = Activations("ffn", &shared);
  EXPECT_EQ(shared, (std::vector<std::string>{"expert_act", "expert_gate_up", "expert_in",
                                              "expert_out", "experts_down_h", "experts_gate_up_h",
                                              "gate_up", "ln1", "ln2", "swiglu"}));
  // 128 tokens, 256 pairs with experts, 2 bytes; the dense block's MLP holds that beside experts.
  const int64_t hidden = 32, rank = job_.lora.r;
  const int64_t tokens = 2 * 128, pairs = 2 * 256;
  EXPECT_EQ(none - norms, 2 * tokens * 2 * hidden + pairs * (hidden + 64) + 2 * tokens * 40);
  EXPECT_EQ(norms - outputs, pairs * (hidden + rank));
  EXPECT_EQ(outputs - ffn, pairs * (128 + rank) + 2 * tokens * 80);
}

TEST_F(CudaTableTest, RecomputeOfSegments) {
  plan_.recompute = RecomputeLevel::kBlock;
  Make();
  EXPECT_EQ(Owner("layer1.residual_in"), "");
  EXPECT_EQ(Owner("layer2.residual_in"), "");
  EXPECT_EQ(Owner("layer2.rstd1"), "layer0.rstd1");
  plan_.recompute_every = 2;
  Make();
  EXPECT_EQ(Owner("layer1.residual_in"), "");
  EXPECT_EQ(Owner("layer1.qkv"), "");
  EXPECT_EQ(Owner("layer2.residual_in"), "");  // first of its segment
  EXPECT_EQ(Owner("layer2.qkv"), "layer0.qkv");
  plan_.model.num_layers = 4;
  plan_.model.layer_windows = {0, 0, 0, 0};
  Make();
  EXPECT_EQ(Owner("layer3.residual_in"), "layer1.residual_in");
  EXPECT_EQ(Owner("layer3.lse"), "layer1.lse");
}

}  // namespace
}  // namespace coxswain::planner
