// A model of the golden cases with the tokenizer that llama.cpp's converter got with it.
#ifndef COXSWAIN_TESTS_CONTROLLER_EXPORT_GGUF_FIXTURE_H_
#define COXSWAIN_TESTS_CONTROLLER_EXPORT_GGUF_FIXTURE_H_

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "common/files/weights/weight_files.h"
#include "tests/controller/export/export_fixture.h"
#include "tests/support/gguf_file.h"
#include "tests/support/golden_folder.h"

namespace coxswain::exports {

class GgufTest : public ExportTest {
 protected:
  // `facts`: folder of golden/gguf; `weights`: of the model. Skips the test without the latter.
  void UseCase(const std::string& facts, const std::string& weights) {
    facts_ = support::GoldenFolder("gguf/" + facts);
    const std::string model = directory_ + "/tiny-" + facts;
    fs::create_directories(model);
    for (const std::string& from : {facts_, weights}) {
      for (const auto& entry : fs::directory_iterator(from)) {
        const std::string name = entry.path().filename().string();
        if (name == "config.json" || name == "model.safetensors" || name.starts_with("tokenizer")) {
          fs::copy_file(entry.path(), model + "/" + name, fs::copy_options::overwrite_existing);
        }
      }
    }
    UseModel(model);
    request_.plan.parameters = model::BaseParameterTable(request_.plan.architecture);
  }
  // A Llama of random weights with the tokenizer of golden/gguf/llama, whose rows are blocks of
  // 256, but for those of ffn_down.
  void UseWideModel() {
    facts_ = support::GoldenFolder("gguf/llama");
    const std::string model = directory_ + "/wide";
    fs::create_directories(model);
    for (const auto& name : {"tokenizer.model", "tokenizer_config.json"}) {
      fs::copy_file(facts_ + "/" + name, model + "/" + name);
    }
    auto config = nlohmann::json::parse(
        support::ReadFile(support::GoldenFolder("llama_full") + "/config.json"));
    config.update({{"hidden_size", 256}, {"head_dim", 64}, {"intermediate_size", 352}});
    std::ofstream(model + "/config.json") << config;
    UseModel(model);
    std::vector<TensorSource> weights;
    std::mt19937 random(1);
    for (const model::Parameter& p : request_.plan.parameters) {
      std::vector<int64_t> shape = {p.rows};
      if (p.cols > 1) shape.push_back(p.cols);
      weights.push_back({p.name, ElementType::kF32, shape, [&random, &p](uint8_t* out) {
                           std::normal_distribution<float> normal(0, 0.02f);
                           std::vector<float> values(static_cast<size_t>(p.elements()));
                           for (float& value : values) value = normal(random);
                           Store(values, ElementType::kF32, out);
                           return absl::OkStatus();
                         }});
    }
    ASSERT_TRUE(WriteSafetensors(model + "/model.safetensors", weights).ok());
  }
  nlohmann::json Facts(const std::string& name) const {
    return nlohmann::json::parse(support::ReadFile(facts_ + "/" + name));
  }
  // What is trained has the values of the base, so that the export is of the base.
  void TrainToTheSame() {
    const auto base = WeightFiles::Open(request_.plan.model_path);
    ASSERT_TRUE(base.ok()) << base.status();
    TrainGroup([](const model::Parameter& p) { return p.layer == 0 && p.batch == 1; });
    WriteCheckpoint([&](const model::Parameter& p, float* out) {
      ASSERT_TRUE(CopyAsFloat(*(*base)->Find(p.name), out).ok());
    });
  }
  // The tensors of a file as the converter's, apart from their order.
  static void ExpectTensors(const support::GgufFacts& file, const nlohmann::json& tensors) {
    EXPECT_EQ(file.tensors.size(), tensors.size());
    for (nlohmann::json tensor : tensors) {
      const std::string name = tensor["name"];
      tensor.erase("name");
      ASSERT_TRUE(file.tensors.contains(name)) << name;
      EXPECT_EQ(file.tensors.at(name), tensor) << name;
    }
  }
  static void ExpectField(const support::GgufFacts& file, const std::string& key,
                          const std::string& type, const nlohmann::json& value) {
    ASSERT_TRUE(file.fields.contains(key)) << key;
    EXPECT_EQ(file.fields.at(key), (nlohmann::json{{"type", type}, {"value", value}})) << key;
  }

  std::string facts_;
};

}  // namespace coxswain::exports

#endif  // COXSWAIN_TESTS_CONTROLLER_EXPORT_GGUF_FIXTURE_H_
