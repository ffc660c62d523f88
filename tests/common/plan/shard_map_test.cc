#include "common/plan/shard_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "common/model/parameter_table.h"
#include "common/plan/optimizer_states.h"
#include "common/plan/unit_fetch.h"

namespace coxswain::plan {
namespace {

// 3 blocks with odd extents, everything trained; bfloat16 gradients of matrices.
Plan MakePlan(int32_t shard, int32_t zero, int64_t lora_rank = 0) {
  Plan plan;
  model::ModelConfig& c = plan.model;
  c.architecture = "LlamaForCausalLM";
  c.vocab_size = 131;
  c.hidden_size = 36;
  c.intermediate_size = 70;
  c.num_layers = 3;
  c.num_heads = 3;
  c.num_kv_heads = 1;
  c.head_dim = 12;
  c.tie_embeddings = true;
  c.qkv_bias = true;
  c.layer_windows = {0, 0, 0};
  plan.parameters = model::BaseParameterTable(c);
  if (lora_rank > 0) {
    plan.parameters =
        model::WithLora(plan.parameters, c, {lora_rank, {"all-linear"}, false}).value();
    plan.lora.rank = lora_rank;
  }
  for (model::Parameter& p : plan.parameters) {
    if (lora_rank == 0 || model::IsAdapter(p)) p.group = 0;
  }
  plan.compute_dtype = plan.gradient_dtype = Precision::kBfloat16;
  plan.shard = shard;
  plan.zero = zero;
  return plan;
}

const model::Parameter& Find(const Plan& plan, const std::string& part_of_name) {
  return *std::find_if(plan.parameters.begin(), plan.parameters.end(), [&](const auto& p) {
    return p.name.find(part_of_name) != std::string::npos;
  });
}

TEST(StorageTest, FollowsFromPlanAndTensor) {
  constexpr Storage kF32 = Storage::kFloat32, kBf16 = Storage::kBfloat16;
  Plan plan = MakePlan(1, 0);  // tied, gradients bfloat16, masters float32
  const auto of = [&plan](const char* name) { return StorageOf(plan, Find(plan, name)); };
  EXPECT_EQ(of("down_proj.weight"), (ParameterStorage{kBf16, kF32, kBf16}));
  EXPECT_EQ(of("q_proj.bias"), (ParameterStorage{kBf16, kF32, kF32}));
  EXPECT_EQ(of("embed_tokens.weight"), (ParameterStorage{kBf16, kF32, kF32}));
  plan.master_dtype = Precision::kBfloat16;
  EXPECT_EQ(of("down_proj.weight"), (ParameterStorage{kBf16, std::nullopt, kBf16}));
  EXPECT_EQ(of("down_proj.weight").trained_values(), kBf16);
  plan = MakePlan(1, 0, 4);  // adapters
  plan.master_dtype = Precision::kBfloat16;
  EXPECT_EQ(of("down_proj.weight"), (ParameterStorage{kBf16, std::nullopt, std::nullopt}));
  const auto lora_a = of("down_proj.lora_A");
  EXPECT_EQ(lora_a, (ParameterStorage{kBf16, kF32, kF32}));
  plan.compute_dtype = plan.gradient_dtype = plan.master_dtype = Precision::kFloat32;
  EXPECT_EQ(of("down_proj.lora_A"), (ParameterStorage{kF32, std::nullopt, kF32}));
}

// What corrects the choice of experts is float32 in a plan of bfloat16, in a flat of its own.
TEST(StorageTest, BuffersAreFloat32) {
  Plan plan = MakePlan(2, 3);
  model::ModelConfig& c = plan.model;
  c.architecture = "Glm4MoeForCausalLM";
  c.tie_embeddings = false;
  c.mixture = {.experts = 6, .chosen = 2, .width = 20, .score = "sigmoid"};
  plan.parameters = model::BaseParameterTable(c);
  for (model::Parameter& p : plan.parameters) p.group = model::IsBuffer(p) ? model::kFrozen : 0;
  const model::Parameter& correction = Find(plan, "e_score_correction_bias");
  EXPECT_EQ(StorageOf(plan, correction),
            (ParameterStorage{Storage::kFloat32, std::nullopt, std::nullopt}));
  const ShardMap map(plan);
  const auto i = static_cast<size_t>(&correction - plan.parameters.data());
  EXPECT_EQ(map.flats[map.places[i].flat].parameters, std::vector<size_t>{i});
}

// Invariant plan-5.
TEST(ShardMapTest, RanksOwnEachElementOnce) {
  for (const int32_t shard : {1, 2, 3, 7}) {
    const Plan plan = MakePlan(shard, shard > 1 ? 1 : 0);
    const ShardMap map(plan);
    for (size_t i = 0; i < plan.parameters.size(); ++i) {
      int64_t end = 0;
      for (int32_t rank = 0; rank < shard; ++rank) {
        const Range owned = map.Owned(plan, i, rank);
        if (owned.count() == 0) continue;
        EXPECT_EQ(owned.begin, end) << plan.parameters[i].name;
        end = owned.end;
      }
      EXPECT_EQ(end, plan.parameters[i].elements()) << plan.parameters[i].name;
    }
  }
}

TEST(ShardMapTest, RangesAreEqualAlignedAndInOrder) {
  const Plan plan = MakePlan(3, 1);
  const ShardMap map(plan);
  int64_t weights = 0, states = 0;
  int32_t unit = 0;
  for (const Flat& flat : map.flats) {
    EXPECT_GE(flat.unit, unit);
    unit = flat.unit;
    EXPECT_EQ(flat.owned * 3, flat.elements);
    EXPECT_EQ(flat.owned % kShardAlignment, 0);
    EXPECT_EQ(flat.weights, weights);
    EXPECT_EQ(flat.states, (std::vector<int64_t>{states, states}));
    weights += 2 * flat.elements;
    states += 4 * flat.owned;
    int64_t elements = 0;
    for (const size_t i : flat.parameters) {
      EXPECT_EQ(map.places[i].offset, elements);  // no gaps: packed matrices stay together
      elements += plan.parameters[i].elements();
    }
    EXPECT_LE(elements, flat.elements);
    EXPECT_GT(elements, flat.elements - 3 * kShardAlignment);
  }
  EXPECT_EQ(map.weights, weights);
  EXPECT_EQ(map.states, (std::vector<int64_t>{states, states}));
}

TEST(ShardMapTest, AMatrixIsCutInsideARow) {
  const Plan plan = MakePlan(7, 1);
  const ShardMap map(plan);
  const Range owned = map.Owned(plan, 0, 1);  // of the embedding
  EXPECT_TRUE(model::IsEmbedding(plan.parameters[0]));
  EXPECT_NE(owned.begin % plan.parameters[0].cols, 0);
}

TEST(ShardMapTest, FlatsAreByKindOfGradient) {
  const ShardMap map(MakePlan(2, 1));
  ASSERT_EQ(map.flats.size(), 1u + 3 * 2 + 1);  // tied embedding, blocks of two kinds, final norm
  const auto gradient = [](const Flat& flat) { return flat.storage.gradient; };
  EXPECT_EQ(gradient(map.flats[0]), Storage::kFloat32);
  EXPECT_EQ(gradient(map.flats[1]), Storage::kBfloat16);
  EXPECT_EQ(gradient(map.flats[2]), Storage::kFloat32);
  const ShardMap lora(MakePlan(2, 1, 4));
  ASSERT_EQ(lora.flats.size(), 1u + 3 * 2 + 1);
  EXPECT_FALSE(lora.flats[0].trained());
  EXPECT_EQ(gradient(lora.flats[1]), Storage::kFloat32);  // one bucket of a unit's adapters
  EXPECT_FALSE(lora.flats[2].trained());
  EXPECT_TRUE(lora.flats[2].states.empty());
}

// Trained base weights beside adapters: each with the masters that its storage says.
TEST(ShardMapTest, FlatsAreOfOneStorage) {
  Plan plan = MakePlan(2, 1, 4);
  plan.master_dtype = plan.gradient_dtype = Precision::kBfloat16;
  plan.parameters[1].group = 0;  // a norm of block 0
  const ShardMap map(plan);
  ASSERT_EQ(map.flats.size(), 1u + (3 * 2 + 1) + 1);
  for (const Flat& flat : map.flats) {
    EXPECT_EQ(flat.master >= 0, flat.storage.master.has_value());
    for (const size_t i : flat.parameters) {
      EXPECT_EQ(StorageOf(plan, plan.parameters[i]), flat.storage) << plan.parameters[i].name;
    }
  }
}

TEST(ShardMapTest, StagesMoveBlocksIntoSlots) {
  for (const int32_t zero : {1, 2, 3}) {
    const ShardMap map(MakePlan(2, zero));
    for (const Flat& flat : map.flats) {
      const bool block = flat.unit >= 1 && flat.unit <= 3;
      EXPECT_EQ(flat.weights_slotted(), block && zero == 3);
      EXPECT_EQ(flat.gradient_slotted(), block && zero >= 2);
    }
  }
  const ShardMap frozen(MakePlan(2, 3, 4));
  EXPECT_TRUE(frozen.flats[2].weights_slotted());  // a frozen block
  EXPECT_FALSE(frozen.flats[0].weights_slotted());
}

// Flats of block 1: adapters, then what is frozen and kept as it computes, then what is quantised.
TEST(ShardMapTest, QuantisedLinearsAreAFlatOfTheirOwn) {
  for (const int32_t zero : {0, 3}) {
    Plan plan = MakePlan(zero == 3 ? 2 : 1, zero, 4);
    plan.quantization = Quantization::kNf4Double;
    const ShardMap map(plan);
    int quantized = 0;
    for (const Flat& flat : map.flats) {
      if (!flat.quantized()) continue;
      ++quantized;
      EXPECT_FALSE(flat.trained());
      EXPECT_TRUE(flat.weights_slotted());
      EXPECT_EQ(flat.packed_slot >= 0, zero == 3);
      EXPECT_EQ(flat.packed % (plan.shard * kShardAlignment), 0);
      int64_t packed = 0, constants = map.places[flat.parameters[0]].constants;
      for (const size_t i : flat.parameters) {
        EXPECT_TRUE(model::IsLinear(plan.parameters[i])) << plan.parameters[i].name;
        EXPECT_EQ(map.places[i].packed, packed);
        EXPECT_EQ(map.places[i].constants, constants);
        packed += (plan.parameters[i].elements() + 63) / 64 * 64;
        constants += 2;  // offset and one group
      }
      EXPECT_LE(packed, flat.packed);
    }
    EXPECT_EQ(quantized, plan.model.num_layers);
    EXPECT_EQ(map.weight_scales, 2 * 7 * plan.model.num_layers);
  }
}

// The linears beside stay as they compute.
TEST(ShardMapTest, Mxfp4IsOfExperts) {
  model::Parameter experts{.name = "experts", .kind = model::Kind::kExperts},
      linear{.name = "linear", .kind = model::Kind::kLinear};
  for (const char* word : {"nf4", "nf4_double", "int8", "mxfp4", ""}) {
    const Quantization format = *FromString<Quantization>(word);
    const bool mxfp4 = std::string(word) == "mxfp4", any = *word != 0;
    EXPECT_EQ(IsQuantizedIn(format, experts), any) << word;
    EXPECT_EQ(IsQuantizedIn(format, linear), any && !mxfp4) << word;
    experts.part = linear.part = model::Part::kLoraA;
    EXPECT_FALSE(IsQuantizedIn(format, experts) || IsQuantizedIn(format, linear)) << word;
    experts.part = linear.part = model::Part::kBase;
  }
}

TEST(ShardMapTest, QuantisedStorageIsCountedWithItsScales) {
  const std::tuple<Storage, int64_t, int64_t, int64_t> kCases[] = {
      {Storage::kNf4, 500, 4 * 16, 0},
      {Storage::kNf4Double, 500, 16, 2},
      {Storage::kInt8, 1000, 0, 8},
      {Storage::kMxfp4, 500, 31, 0},
      {Storage::kBfloat16, 2000, 0, 0}};
  for (const auto& [storage, codes, scales, constants] : kCases) {
    EXPECT_EQ(StorageBytes(storage, 1000), codes) << StorageName(storage);
    EXPECT_EQ(ScaleBytes(storage, 1000), scales) << StorageName(storage);
    EXPECT_EQ(ScaleConstants(storage, 8, 125), constants) << StorageName(storage);
  }
}

TEST(UnitFetchTest, DequantisesWhatIsQuantisedAndGathersIfItIsShared) {
  for (const int32_t zero : {0, 2, 3}) {
    Plan plan = MakePlan(zero == 0 ? 1 : 2, zero, 4);
    plan.quantization = Quantization::kInt8;
    const ShardMap map(plan);
    const UnitFetch block = UnitFetches(plan, map)[1];
    EXPECT_EQ(block.dequantized.size(), 7u);
    EXPECT_TRUE(block.slotted);
    bool gathered = false;
    for (const GatherPart& part : block.gathers) gathered |= map.flats[part.flat].quantized();
    EXPECT_EQ(gathered, zero == 3);
  }
}

TEST(UnitFetchTest, GathersWhatIsTrainedOrSlotted) {
  for (const UnitFetch& fetch : UnitFetches(MakePlan(1, 0), ShardMap(MakePlan(1, 0)))) {
    EXPECT_TRUE(fetch.empty());
  }
  const Plan plan = MakePlan(2, 3, 4);  // adapters beside slotted frozen blocks
  const std::vector<UnitFetch> fetches = UnitFetches(plan, ShardMap(plan));
  ASSERT_EQ(fetches.size(), 5u);
  for (const size_t unit : {0, 4}) {  // frozen, and whole on every rank
    EXPECT_TRUE(fetches[unit].empty());
    EXPECT_FALSE(fetches[unit].slotted);
  }
  ASSERT_EQ(fetches[1].gathers.size(), 2u);
  EXPECT_TRUE(fetches[1].slotted);
  EXPECT_TRUE(fetches[1].gathers[0].trained);  // an update leaves the other as it is
  EXPECT_FALSE(fetches[1].gathers[1].trained);
  for (const GatherPart& part : fetches[1].gathers) EXPECT_TRUE(part.slotted);
}

// What is run of a block by what its slot holds and what an update changed.
TEST(UnitFetchTest, RunsThePartsThatLack) {
  const GatherPart frozen{0, false, true}, trained{1, true, true}, beside{2, true, false};
  const auto gathers = [&](const Lacking& lacking) {
    std::string run;
    if (UnitFetch::Gathers(frozen, lacking)) run += "frozen ";
    if (UnitFetch::Gathers(trained, lacking)) run += "trained ";
    if (UnitFetch::Gathers(beside, lacking)) run += "beside ";
    return run;
  };
  EXPECT_EQ(gathers({}), "");
  EXPECT_EQ(gathers({.slot = true}), "frozen trained ");
  EXPECT_EQ(gathers({.updated = true}), "trained ");
  EXPECT_EQ(gathers({.beside = true}), "beside ");
  EXPECT_EQ(gathers({.slot = true, .updated = true, .beside = true}), "frozen trained beside ");
  UnitFetch fetch;
  fetch.gathers = {beside};
  EXPECT_FALSE(fetch.Lacks({.slot = true, .updated = true}));
  EXPECT_TRUE(fetch.Lacks({.beside = true}));
  fetch.dequantized = {7};
  EXPECT_TRUE(fetch.Lacks({.slot = true}));
  EXPECT_FALSE(fetch.Lacks({.updated = true}));
}

// QLoRA: the adapters of a block lie on every rank, beside the slot of its dequantised base.
TEST(UnitFetchTest, AdaptersBesideADequantisedBaseAreInNoSlot) {
  for (const int32_t zero : {1, 2, 3}) {
    Plan plan = MakePlan(2, zero, 4);
    plan.quantization = Quantization::kNf4;
    const UnitFetch block = UnitFetches(plan, ShardMap(plan))[1];
    EXPECT_FALSE(block.gathers.empty());
    for (const GatherPart& part : block.gathers) EXPECT_EQ(part.slotted, zero == 3) << zero;
  }
}

// Hidden size 72: q, o, gate and down have 4,096 elements and more, up begins inside a block.
Plan MakeBlockyPlan(int32_t shard, int64_t lora_rank = 0) {
  Plan plan = MakePlan(shard, shard > 1 ? 1 : 0);
  model::ModelConfig& c = plan.model;
  c.hidden_size = 72;
  c.intermediate_size = 90;
  c.num_heads = 6;
  c.num_kv_heads = 2;
  plan.parameters = model::BaseParameterTable(c);
  if (lora_rank > 0) {
    plan.lora.rank = lora_rank;
    plan.parameters =
        model::WithLora(plan.parameters, c, {lora_rank, {"all-linear"}, false}).value();
  }
  for (model::Parameter& p : plan.parameters) {
    if (lora_rank == 0 || model::IsAdapter(p)) p.group = 0;
  }
  plan.optimizer = OptimizerKind::kAdamW8bit;
  return plan;
}

TEST(OptimizerStatesTest, BlocksAreOfLargeTensorsThatBeginAtOne) {
  constexpr const char* kFromOne[] = {"embed_tokens.weight", "q_proj.weight", "o_proj.weight",
                                      "gate_proj.weight", "down_proj.weight"};
  const Plan plan = MakeBlockyPlan(1);
  const std::vector<bool> in_blocks = InBlocks(plan);
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const std::string& name = plan.parameters[i].name;
    const bool expected =
        std::any_of(std::begin(kFromOne), std::end(kFromOne),
                    [&name](const char* part) { return name.find(part) != std::string::npos; });
    EXPECT_EQ(in_blocks[i], expected) << name;
  }
  // A of rank 64 is 18 blocks: that of up begins at one too. Frozen tensors have no states.
  const Plan lora = MakeBlockyPlan(1, 64);
  const std::vector<bool> adapters = InBlocks(lora);
  for (size_t i = 0; i < lora.parameters.size(); ++i) {
    const model::Parameter& p = lora.parameters[i];
    EXPECT_EQ(adapters[i], p.trainable() && p.elements() >= 4096) << p.name;
  }
  Plan plain = MakeBlockyPlan(1);
  plain.optimizer = OptimizerKind::kAdamW;
  EXPECT_EQ(InBlocks(plain), std::vector<bool>(plain.parameters.size(), false));
}

// Invariant plan-5.
TEST(ShardMapTest, CutsLieBetweenBlocksAndWholesStayWhole) {
  for (const int64_t lora_rank : {0, 64, 65}) {
    for (const int32_t shard : {1, 2, 3, 7}) {
      const Plan plan = MakeBlockyPlan(shard, lora_rank);
      const ShardMap map(plan);
      for (size_t i = 0; i < plan.parameters.size(); ++i) {
        const model::Parameter& p = plan.parameters[i];
        if (!p.trainable()) continue;
        if (ContinuesPack(plan, i)) {
          EXPECT_EQ(map.places[i].offset,
                    map.places[i - 1].offset + plan.parameters[i - 1].elements());
        }
        int64_t end = 0;
        for (int32_t rank = 0; rank < shard; ++rank) {
          const Range owned = map.Owned(plan, i, rank);
          if (owned.count() == 0) continue;
          EXPECT_EQ(owned.begin, end) << p.name;
          EXPECT_TRUE(!map.places[i].in_blocks || owned.begin % 256 == 0) << p.name;
          end = owned.end;
        }
        EXPECT_EQ(end, p.elements()) << p.name;
      }
    }
  }
}

// No byte of a row is of two states of a rank's, and none lies outside.
TEST(ShardMapTest, StatesLieSideBySide) {
  for (const int32_t shard : {1, 3}) {
    const Plan plan = MakeBlockyPlan(shard);
    const ShardMap map(plan);
    const std::vector<OptimizerState>& states = OptimizerOf(plan).states;
    for (int32_t rank = 0; rank < shard; ++rank) {
      for (size_t s = 0; s < states.size(); ++s) {
        std::vector<bool> taken(static_cast<size_t>(map.states[s]));
        for (size_t i = 0; i < plan.parameters.size(); ++i) {
          const Range owned = map.Owned(plan, i, rank);
          const auto place = map.State(plan, i, s, owned, rank);
          EXPECT_EQ(place.has_value(), states[s].IsOf(map.places[i].in_blocks));
          if (!place.has_value()) continue;
          EXPECT_TRUE(owned.count() > 0 || place->elements.count() == 0);
          if (owned.count() == 0) continue;
          EXPECT_EQ(place->elements,
                    (Range{owned.begin / states[s].block, (owned.end - 1) / states[s].block + 1}));
          const int64_t bytes = StorageBytes(states[s].storage, place->elements.count());
          for (int64_t b = place->offset; b < place->offset + bytes; ++b) {
            ASSERT_LT(b, map.states[s]);
            ASSERT_FALSE(taken[static_cast<size_t>(b)]) << states[s].row;
            taken[static_cast<size_t>(b)] = true;
          }
        }
      }
    }
  }
}

TEST(ShardMapTest, ReplicasShareTheSaving) {
  Plan plan = MakePlan(2, 1);
  plan.replicate = 3;
  const Range owned{100, 207};
  EXPECT_EQ(SavedBy(plan, owned, 1, 0), (Range{100, 135}));
  EXPECT_EQ(SavedBy(plan, owned, 1, 1), (Range{135, 171}));
  EXPECT_EQ(SavedBy(plan, owned, 1, 2), (Range{171, 207}));
  const Range blocks{512, 512 + 3 * 256 + 100};  // the last block is short
  EXPECT_EQ(SavedBy(plan, blocks, 256, 0), (Range{512, 768}));
  EXPECT_EQ(SavedBy(plan, blocks, 256, 1), (Range{768, 1024}));
  EXPECT_EQ(SavedBy(plan, blocks, 256, 2), (Range{1024, 1380}));
  EXPECT_EQ(MeshPlace(plan, 5).replica, 2);
  EXPECT_EQ(MeshPlace(plan, 5).shard, 1);
}

}  // namespace
}  // namespace coxswain::plan
