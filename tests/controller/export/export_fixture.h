// A job that is exported: a base model, its plan, and a checkpoint that any number of ranks wrote.
#ifndef COXSWAIN_TESTS_CONTROLLER_EXPORT_EXPORT_FIXTURE_H_
#define COXSWAIN_TESTS_CONTROLLER_EXPORT_EXPORT_FIXTURE_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/checkpoint/checkpoint_tensors.h"
#include "common/files/safetensors/safetensors.h"
#include "common/files/safetensors/safetensors_writer.h"
#include "common/model/family.h"
#include "common/model/parameter_table.h"
#include "common/model/read/read_model_config.h"
#include "controller/export/export_artifacts.h"
#include "tests/common/config/default_spec.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::exports {

namespace fs = std::filesystem;

class ExportTest : public testing::Test {
 protected:
  void SetUp() override {
    request_.job = config::DefaultSpec();
    request_.author = {.job = "job-1", .step = 10};
    fs::create_directories(directory_ + "/checkpoint");
  }

  void UseModel(const std::string& path) {
    request_.plan.model_path = path;
    request_.job.model_path = path;
    auto config = model::ReadModelConfig(path);
    ASSERT_TRUE(config.ok()) << config.status();
    request_.plan.model = *config;
    request_.plan.architecture = model::ArchitectureOf(*config);
    request_.plan.parameters = model::BaseParameterTable(*config);
    request_.job.output_dir = directory_ + "/out";
    request_.checkpoint_dir = directory_ + "/checkpoint";
  }

  void AddLora(int64_t rank, double alpha, bool rslora, bool dora = false,
               const std::vector<std::string>& targets = {"all-linear"}) {
    auto table =
        model::WithLora(request_.plan.parameters, request_.plan.model, {rank, targets, dora});
    ASSERT_TRUE(table.ok()) << table.status();
    request_.plan.parameters = *table;
    request_.plan.lora.rank = rank;
    request_.plan.lora.dora = dora;
    request_.plan.lora.scale = rslora ? alpha / std::sqrt(rank) : alpha / rank;
    request_.job.adapter = config::Adapter::kLora;
    request_.job.lora.r = rank;
    request_.job.lora.alpha = alpha;
    request_.job.lora.use_rslora = rslora;
  }

  // Splits the tensors that `value` fills over two ranks' shards.
  void WriteCheckpoint(const std::function<void(const model::Parameter&, float*)>& value,
                       ElementType dtype = ElementType::kF32) {
    std::vector<TensorSource> shards[2];
    int next = 0;
    for (const model::Parameter& parameter : request_.plan.parameters) {
      if (!parameter.trainable()) continue;
      std::vector<int64_t> shape = {parameter.rows};
      if (parameter.cols > 1) shape.push_back(parameter.cols);
      shards[next++ % 2].push_back({parameter.name, dtype, shape, [&, dtype](uint8_t* out) {
                                      std::vector<float> values(parameter.elements());
                                      value(parameter, values.data());
                                      Store(values, dtype, out);
                                      return absl::OkStatus();
                                    }});
    }
    for (int rank = 0; rank < 2; ++rank) {
      auto written = WriteSafetensors(
          request_.checkpoint_dir + "/rank-" + std::to_string(rank) + ".safetensors", shards[rank]);
      ASSERT_TRUE(written.ok()) << written.status();
    }
  }

  // The same checkpoint as three ranks write it that own parts of every tensor.
  void CutCheckpoint(const std::string& to) {
    fs::create_directories(to);
    const auto whole = CheckpointTensors::Open(request_.checkpoint_dir);
    ASSERT_TRUE(whole.ok()) << whole.status();
    for (int rank = 0; rank < 3; ++rank) {
      std::vector<TensorSource> tensors;
      nlohmann::json pieces = nlohmann::json::object();
      for (const auto& [name, tensor] : whole->tensors()) {
        const int64_t begin = tensor.elements() * rank / 3,
                      end = tensor.elements() * (rank + 1) / 3;
        pieces[name] = {{"begin", begin}, {"shape", tensor.shape}};
        const TensorInfo* values = tensor.pieces[0].values;
        const int64_t element = ElementBits(tensor.dtype) / 8;
        tensors.push_back({name, tensor.dtype, {end - begin}, [=](uint8_t* out) {
                             std::memcpy(out, values->data + begin * element,
                                         static_cast<size_t>((end - begin) * element));
                             return absl::OkStatus();
                           }});
      }
      const nlohmann::json metadata = {{"pieces", pieces}};
      ASSERT_TRUE(WriteSafetensors(to + "/rank-" + std::to_string(rank) + ".safetensors", tensors,
                                   {{"coxswain", metadata.dump()}})
                      .ok());
    }
  }

  static void Store(const std::vector<float>& values, ElementType dtype, uint8_t* out) {
    if (dtype == ElementType::kF32) {
      std::memcpy(out, values.data(), values.size() * 4);
      return;
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t bits = FloatToBf16(values[i]);
      std::memcpy(out + 2 * i, &bits, 2);
    }
  }

  void TrainGroup(const std::function<bool(const model::Parameter&)>& trainable) {
    for (model::Parameter& parameter : request_.plan.parameters) {
      parameter.group = trainable(parameter) ? 0 : model::kFrozen;
    }
  }

  const support::ScratchFolder folder_;
  const std::string directory_ = folder_.path();
  DiskFiles files_;
  ExportRequest request_;
};

}  // namespace coxswain::exports

#endif  // COXSWAIN_TESTS_CONTROLLER_EXPORT_EXPORT_FIXTURE_H_
