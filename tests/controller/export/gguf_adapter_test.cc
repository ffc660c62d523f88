// GGUF files of adapters, against what llama.cpp's converter writes of the same.
#include <gtest/gtest.h>

#include <cmath>

#include "common/model/files/gguf_family.h"
#include "tests/controller/export/gguf_fixture.h"

namespace coxswain::exports {
namespace {

class GgufAdapterTest : public GgufTest {
 protected:
  // The adapter of a golden case, as peft saved it, is what was trained.
  support::GgufFacts Export(const std::string& facts, const std::string& weights, int64_t rank,
                            double alpha, bool rslora) {
    UseCase(facts, support::GoldenFolder(weights));
    AddLora(rank, alpha, rslora);
    TrainGroup(model::IsAdapter);
    const auto saved = SafetensorsFile::Open(support::GoldenFolder(weights) +
                                             "/adapter/adapter_model.safetensors");
    EXPECT_TRUE(saved.ok()) << saved.status();
    WriteCheckpoint([&](const model::Parameter& p, float* out) {
      const TensorInfo* tensor = (*saved)->Find(p.name);
      ASSERT_NE(tensor, nullptr) << p.name;
      ASSERT_TRUE(CopyAsFloat(*tensor, out).ok());
    });
    request_.job.export_gguf.adapter = "f16";
    const auto result = ExportArtifacts(&files_, request_);
    EXPECT_TRUE(result.ok()) << result.status();
    return support::ReadGguf(result->directory + "/adapter-F16.gguf");
  }
};

TEST_F(GgufAdapterTest, IsWhatTheConverterWrites) {
  const auto file = Export("qwen2", "qwen2_lora", 8, 16, false);
  ExpectTensors(file, Facts("lora.json")["tensors"]);
  for (const auto& field : Facts("lora.json")["metadata"]) {
    if (field["key"] == "general.name") continue;  // of the folder there, of the job here
    ExpectField(file, field["key"], field["type"], field["value"]);
  }
}

// llama.cpp divides by the rank alone, and the converter does not know that rsLoRA divides by its
// root. Rows of q and k are in pairs.
TEST_F(GgufAdapterTest, OfRsLoraHasTheAlphaThatGivesItsScale) {
  const auto file = Export("llama", "llama_rslora", 16, 16, true);
  ExpectTensors(file, Facts("lora.json")["tensors"]);
  ExpectField(file, "adapter.lora.alpha", "FLOAT32", 64.0);
}

TEST_F(GgufAdapterTest, IsRefusedOfWhatItCannotHold) {
  UseCase("qwen2", support::GoldenFolder("qwen2_full"));
  const std::vector<model::Parameter> base = request_.plan.parameters;
  const auto refusal = [&](const std::vector<std::string>& targets, bool dora, auto trains) {
    request_.plan.parameters = base;
    AddLora(4, 8, false, dora, targets);
    TrainGroup(trains);
    return std::string(
        model::CheckGgufAdapter(request_.plan.model, request_.plan.parameters).message());
  };
  EXPECT_EQ(refusal({"all-linear"}, false, model::IsAdapter), "");
  EXPECT_NE(refusal({"all-linear"}, true, model::IsAdapter).find("magnitude"), std::string::npos);
  EXPECT_NE(refusal({"embed_tokens"}, false, model::IsAdapter).find("embed_tokens"),
            std::string::npos);
  const auto norms = [](const model::Parameter& p) {
    return model::IsAdapter(p) || p.kind == model::Kind::kNorm;
  };
  EXPECT_NE(refusal({"all-linear"}, false, norms).find("norm.weight"), std::string::npos);
}

}  // namespace
}  // namespace coxswain::exports
