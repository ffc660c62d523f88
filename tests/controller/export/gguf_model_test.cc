// GGUF files of models, against what llama.cpp's converter writes of the same.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <set>

#include "tests/controller/export/gguf_fixture.h"

namespace coxswain::exports {
namespace {

using support::GgufFacts;

struct Case {
  const char* facts;
  const char* weights;  // of the golden cases; of qwen3_moe a folder beside the repository
  const char* name;     // as the converter makes it of the folder's name
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.facts; }

class GgufFactsTest : public GgufTest, public testing::WithParamInterface<Case> {
 protected:
  // Skips where weights are missing.
  bool Use() {
    std::string weights = support::GoldenFolder(GetParam().weights);
    if (!fs::exists(weights + "/model.safetensors")) {
      const char* shared = std::getenv("COXSWAIN_SHARED");
      weights = std::string(shared == nullptr ? "../shared" : shared) + "/fixtures/gguf/" +
                GetParam().facts + "/hf/tiny-" + GetParam().facts;
    }
    if (!fs::exists(weights + "/model.safetensors")) return false;
    UseCase(GetParam().facts, weights);
    request_.job.name = GetParam().name;
    return true;
  }
  // Keys that the converter writes and we do not, or the reverse, with the reason.
  std::set<std::string> Differ() const {
    // config.json names an id without a row (32000 of 512); the tokenizer has its own.
    if (std::string(GetParam().facts) == "phi3") return {"tokenizer.ggml.eos_token_id"};
    return {};
  }
};

TEST_P(GgufFactsTest, HoldsWhatTheConverterWritesInEachType) {
  if (!Use()) GTEST_SKIP() << "no weights of " << GetParam().weights;
  TrainToTheSame();
  const auto facts = Facts("facts.json");
  for (const char* type : {"f32", "f16", "bf16", "q8_0"}) {
    SCOPED_TRACE(type);
    request_.job.export_gguf.model = type;
    const auto result = ExportArtifacts(&files_, request_);
    ASSERT_TRUE(result.ok()) << result.status();
    std::string upper = type;
    std::transform(upper.begin(), upper.end(), upper.begin(), ::toupper);
    const GgufFacts file = support::ReadGguf(result->directory + "/model-" + upper + ".gguf");
    ExpectTensors(file, facts[type]["tensors"]);
    std::map<std::string, nlohmann::json> wanted;
    for (const char* list : {"f32", type}) {
      for (nlohmann::json field : facts[list]["metadata"]) {
        const std::string key = field["key"];
        field.erase("key");
        wanted[key] = field;
      }
    }
    auto written = file.fields;
    for (const std::string& key : Differ()) {
      written.erase(key);
      wanted.erase(key);
    }
    for (const auto& [key, field] : written) {
      ASSERT_TRUE(wanted.contains(key)) << key;
      EXPECT_EQ(field, wanted[key]) << key;
    }
    EXPECT_EQ(written.size(), wanted.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GgufFactsTest,
                         testing::Values(Case{"qwen2", "qwen2_full", "Tiny Qwen2"},
                                         Case{"qwen3", "qwen3_full", "Tiny Qwen3"},
                                         Case{"llama", "llama_full", "Tiny Llama"},
                                         Case{"llama_bpe", "llama_full", "Tiny Llama_Bpe"},
                                         Case{"llama31_rope", "llama31_rope_full",
                                              "Tiny Llama31_Rope"},
                                         Case{"gemma2", "gemma2_full", "Tiny Gemma2"},
                                         Case{"mistral", "mistral_full", "Tiny Mistral"},
                                         Case{"phi3", "phi3_full", "Tiny Phi3"},
                                         Case{"qwen3_moe", "qwen3_moe_full", "Tiny Qwen3_Moe"}),
                         [](const auto& info) { return std::string(info.param.facts); });

// Beside an adapter the model is the merged one, rounded once: the same values as of the model that
// export.merge writes in float32.
TEST_F(GgufTest, AnAdapterGivesTheMergedModel) {
  UseCase("qwen2", support::GoldenFolder("qwen2_full"));
  AddLora(4, 8, false);
  TrainGroup(model::IsAdapter);
  WriteCheckpoint([](const model::Parameter& p, float* out) {
    for (int64_t i = 0; i < p.elements(); ++i) out[i] = 0.01f * static_cast<float>(i % 7 - 3);
  });
  request_.job.export_gguf.model = "f32";
  const auto adapter = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  EXPECT_TRUE(adapter->merged_directory.empty());
  const GgufFacts file = support::ReadGguf(adapter->directory + "/model-F32.gguf");
  request_.job.export_merge = true;
  request_.job.export_dtype = "float32";
  const auto both = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_FALSE(fs::exists(both->directory + "/model-F32.gguf"));
  EXPECT_EQ(support::ReadGguf(both->merged_directory + "/model-F32.gguf").tensors, file.tensors);
  const auto merged = WeightFiles::Open(both->merged_directory);
  ASSERT_TRUE(merged.ok()) << merged.status();
  const TensorInfo* down = (*merged)->Find("model.layers.1.mlp.down_proj.weight");
  const std::string values(reinterpret_cast<const char*>(down->data), down->bytes);
  EXPECT_EQ(file.data.at("blk.1.ffn_down.weight"), values);
}

// Layers 0 and 1 of three have fewer bits, and rows of 352 elements are no blocks of 256.
TEST_F(GgufTest, OfMixedTypesHasThoseOfEachMatrix) {
  UseWideModel();
  TrainToTheSame();
  request_.job.export_gguf.model = "q4_k_m";
  const auto result = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(result.ok()) << result.status();
  const GgufFacts file = support::ReadGguf(result->directory + "/model-Q4_K_M.gguf");
  ExpectField(file, "general.file_type", "UINT32", 15);
  ExpectField(file, "general.quantization_version", "UINT32", 2);
  const std::map<std::string, std::string> types = {
      {"token_embd.weight", "Q4_K"},     {"output.weight", "Q6_K"},
      {"blk.1.attn_q.weight", "Q4_K"},   {"blk.1.attn_v.weight", "Q4_K"},
      {"blk.2.attn_v.weight", "Q6_K"},   {"blk.1.ffn_down.weight", "Q5_0"},
      {"blk.2.ffn_down.weight", "Q8_0"}, {"blk.2.ffn_up.weight", "Q4_K"},
      {"blk.1.attn_norm.weight", "F32"}, {"output_norm.weight", "F32"}};
  for (const auto& [name, type] : types) EXPECT_EQ(file.tensors.at(name)["type"], type) << name;
}

// The package of llama.cpp reads the values: of F32 all to the bit, of the quantised types within
// the bounds of their formats.
TEST_F(GgufTest, IsReadBackByTheGgufPackage) {
  const char* python = std::getenv("COXSWAIN_PYTHON");
  if (python == nullptr) GTEST_SKIP() << "needs COXSWAIN_PYTHON (tests/run.sh sets it)";
  UseWideModel();
  TrainToTheSame();
  std::string command = std::string(python) + " tests/e2e/compare_gguf.py";
  for (const auto& [word, name] :
       {std::pair{"f32", "F32"}, std::pair{"q8_0", "Q8_0"}, std::pair{"q4_k_m", "Q4_K_M"}}) {
    request_.job.export_gguf.model = word;
    request_.job.output_dir = directory_ + "/" + word;
    const auto result = ExportArtifacts(&files_, request_);
    ASSERT_TRUE(result.ok()) << result.status();
    command += " " + result->directory + "/model-" + name + ".gguf";
  }
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

// The template that a job rendered with, and the end that its answers have.
TEST_F(GgufTest, HoldsTheFormatThatWasTrained) {
  UseCase("qwen2", support::GoldenFolder("qwen2_full"));
  TrainToTheSame();
  request_.job.export_gguf.model = "f16";
  request_.format = {.chat_template = "{{ messages }}", .ends = {511, 509}};
  const auto result = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(result.ok()) << result.status();
  const GgufFacts file = support::ReadGguf(result->directory + "/model-F16.gguf");
  ExpectField(file, "tokenizer.chat_template", "STRING", "{{ messages }}");
  ExpectField(file, "tokenizer.ggml.eos_token_id", "UINT32", 511);
  ExpectField(file, "tokenizer.ggml.eot_token_id", "UINT32", 509);
}

// A file of the export like the others: the manifest has it, and that nobody read it back.
TEST_F(GgufTest, IsSealedWithTheExport) {
  UseCase("llama", support::GoldenFolder("llama_full"));
  TrainToTheSame();
  request_.job.export_gguf.model = "q8_0";
  const auto result = ExportArtifacts(&files_, request_);
  ASSERT_TRUE(result.ok()) << result.status();
  const auto seal = ReadSeal(&files_, result->directory);
  ASSERT_TRUE(seal.ok()) << seal.status();
  EXPECT_TRUE(std::any_of(seal->files.begin(), seal->files.end(),
                          [](const auto& file) { return file.name == "model-Q8_0.gguf"; }));
  const std::string manifest = *files_.Read(result->directory + "/coxswain_manifest.json");
  const nlohmann::json gguf = nlohmann::json::parse(manifest).at("verification").at("gguf");
  EXPECT_EQ(gguf.at("outcome"), "skipped");
  EXPECT_EQ(gguf.at("reason"), "the engine does not read GGUF files");
}

}  // namespace
}  // namespace coxswain::exports
