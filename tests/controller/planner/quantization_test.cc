#include "controller/planner/quantization.h"

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
    job.init = "pretrained";
    job.quantization = c.job;
    model.quantization = c.files;
    const auto found = QuantizationOf(job, model);
    ASSERT_TRUE(found.ok()) << c.job << " on " << c.files << ": " << found.status();
    EXPECT_EQ(*found, c.expected) << c.job << " on " << c.files;
  }
}

TEST(QuantizationTest, AnswersComeFromFilesAsTheyAre) {
  config::JobSpec job = SmallJob();
  model::ModelConfig model = SmallModel();
  job.init = "pretrained";
  job.method = "generate";
  model.quantization = "int8";
  EXPECT_EQ(*QuantizationOf(job, model), "int8");
}

TEST(QuantizationTest, RefusesToTrainOrToChangeQuantisedFiles) {
  for (const Case& c :
       {Case{"", "nf4", "give adapter: qlora"},
        Case{"int8", "nf4_double", "hold {format: nf4, double: true}"},
        Case{"nf4", "nf4_double", "quantization is {format: nf4, double: false}"}}) {
    config::JobSpec job = SmallJob();
    model::ModelConfig model = SmallModel();
    job.init = "pretrained";
    job.quantization = c.job;
    model.quantization = c.files;
    const absl::Status status = QuantizationOf(job, model).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_NE(status.message().find(c.expected), std::string::npos) << status;
    job.init = "random";  // of config.json's extents alone
    EXPECT_TRUE(QuantizationOf(job, model).ok());
  }
}

}  // namespace
}  // namespace coxswain::planner
