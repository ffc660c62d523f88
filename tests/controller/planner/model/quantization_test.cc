#include "controller/planner/model/quantization.h"

#include <gtest/gtest.h>

#include "tests/controller/planner/job_fixture.h"

namespace coxswain::planner {
namespace {

struct Case {
  const char *job, *files;
  const char* expected;  // or a part of the message
};

TEST(QuantizationTest, IsThatOfTheFilesOrWhatTheJobAsksFor) {
  for (const Case& c :
       {Case{"", "", ""}, Case{"auto", "", "nf4_double"}, Case{"auto_single", "", "nf4"},
        Case{"int8", "", "int8"}, Case{"auto", "int8", "int8"},
        Case{"auto_single", "nf4_double", "nf4_double"}, Case{"nf4", "nf4", "nf4"}}) {
    config::JobSpec job = SmallJob();
    model::ModelConfig model = SmallModel();
    job.init = BaseInit::kPretrained;
    job.quantization = c.job;
    model.quantization = *FromString<Quantization>(c.files);
    const auto found = QuantizationOf(job, model);
    ASSERT_TRUE(found.ok()) << c.job << " on " << c.files << ": " << found.status();
    EXPECT_EQ(ToString(*found), std::string(c.expected)) << c.job << " on " << c.files;
  }
}

TEST(QuantizationTest, AnswersComeFromFilesAsTheyAre) {
  config::JobSpec job = SmallJob();
  model::ModelConfig model = SmallModel();
  job.init = BaseInit::kPretrained;
  job.method = "generate";
  model.quantization = Quantization::kInt8;
  EXPECT_EQ(*QuantizationOf(job, model), Quantization::kInt8);
}

TEST(QuantizationTest, RefusesToTrainOrToChangeQuantisedFiles) {
  for (const Case& c :
       {Case{"int8", "nf4_double", "hold {format: nf4, double: true}"},
        Case{"nf4", "nf4_double", "quantization is {format: nf4, double: false}"}}) {
    config::JobSpec job = SmallJob();
    model::ModelConfig model = SmallModel();
    job.init = BaseInit::kPretrained;
    job.quantization = c.job;
    model.quantization = *FromString<Quantization>(c.files);
    const absl::Status status = QuantizationOf(job, model).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_NE(status.message().find(c.expected), std::string::npos) << status;
    job.init = BaseInit::kRandom;  // of config.json's extents alone
    EXPECT_TRUE(QuantizationOf(job, model).ok());
  }
}

// Which is what adapters and answers read; full training reads what it stands for.
TEST(QuantizationTest, Mxfp4OfTheFilesStaysUnderAnAdapter) {
  using config::Adapter;
  struct Mxfp4Case {
    const char *job, *files, *expected;
    Adapter adapter = Adapter::kLora;
    const char* method = "sft";
  };
  for (const Mxfp4Case& c :
       {Mxfp4Case{"", "mxfp4", "mxfp4"}, Mxfp4Case{"auto", "mxfp4", "mxfp4"},
        Mxfp4Case{"auto_single", "mxfp4", "mxfp4"}, Mxfp4Case{"mxfp4", "mxfp4", "mxfp4"},
        Mxfp4Case{"none", "mxfp4", ""}, Mxfp4Case{"nf4_double", "mxfp4", "nf4_double"},
        Mxfp4Case{"mxfp4", "", "mxfp4"}, Mxfp4Case{"none", "", ""},
        Mxfp4Case{"", "mxfp4", "", Adapter::kNone}, Mxfp4Case{"none", "mxfp4", "", Adapter::kNone},
        Mxfp4Case{"", "mxfp4", "mxfp4", Adapter::kNone, "generate"},
        Mxfp4Case{"none", "mxfp4", "", Adapter::kNone, "generate"}}) {
    config::JobSpec job = SmallJob();
    model::ModelConfig model = SmallExperts();
    job.init = BaseInit::kPretrained;
    job.quantization = c.job;
    job.adapter = c.adapter;
    job.method = c.method;
    model.quantization = *FromString<Quantization>(c.files);
    const auto found = QuantizationOf(job, model);
    ASSERT_TRUE(found.ok()) << c.job << " on " << c.files << ": " << found.status();
    EXPECT_EQ(ToString(*found), std::string(c.expected))
        << c.job << " on " << c.files << " " << c.method;
  }
}

TEST(QuantizationTest, Mxfp4IsOfExpertsWhoseRowsAreWholeBlocks) {
  config::JobSpec job = SmallJob();
  job.quantization = "mxfp4";
  const auto refusal = [&job](const model::ModelConfig& model) {
    return std::string(QuantizationOf(job, model).status().message());
  };
  EXPECT_EQ(refusal(SmallModel()),
            "quantization.format mxfp4 is for experts, of which /models/small has none");
  model::ModelConfig model = SmallExperts();
  model.mixture.width = 40;
  EXPECT_EQ(refusal(model),
            "quantization.format mxfp4 has a scale for 32 elements of a row; rows of the experts "
            "of /models/small have 40");
  job.resident_blocks = 4;
  EXPECT_NE(refusal(SmallExperts()).find("parallelism.resident_blocks is 4"), std::string::npos);
  for (const char* format : {"mxfp4", "none"}) {
    job.init = BaseInit::kPretrained;
    job.quantization = format;
    model.quantization = Quantization::kInt8;
    EXPECT_NE(refusal(model).find("quantization is {format: " + std::string(format) +
                                  "}, the files of /models/small hold {format: int8}"),
              std::string::npos)
        << refusal(model);
  }
}

TEST(QuantizationTest, LoraOnQuantisedFilesIsToldWhatToWriteInstead) {
  for (const auto& [adapter, name] :
       {std::pair{config::Adapter::kLora, "lora"}, {config::Adapter::kNone, "none"}}) {
    config::JobSpec job = SmallJob();
    job.init = BaseInit::kPretrained;
    job.adapter = adapter;
    model::ModelConfig model = SmallModel();
    model.quantization = Quantization::kNf4Double;
    const absl::Status status = QuantizationOf(job, model).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(std::string(status.message()),
              job.model_path +
                  "/config.json: by quantization_config the linears are {format: nf4, double: "
                  "true}, on which adapter: " +
                  name + " cannot train; write adapter: qlora, or give the unquantised model");
    job.init = BaseInit::kRandom;
    EXPECT_TRUE(QuantizationOf(job, model).ok());
  }
}

}  // namespace
}  // namespace coxswain::planner
