#include "controller/trackers/report.h"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include <nlohmann/json.hpp>

#include "tests/controller/trackers/events.h"
#include "tests/sim/fakes/memory_files.h"
#include "tests/sim/fakes/memory_store.h"
#include "trackers/event_file.pb.h"

namespace coxswain::trackers {
namespace {

using config::Tracker;

constexpr char kLines[] = "/t/jsonl/run.jsonl";
constexpr char kEvents[] = "/t/tensorboard/run/events.out.tfevents.1700000000.coxswain";
constexpr char kRun[] = "/t/wandb/offline-run-20231114_221320-run/run-run.wandb";

class ReportTest : public testing::Test {
 protected:
  static ReportArgs Args(int64_t every = 1) {
    return {.run = {.id = "run", .name = "a", .created_unix_ms = 1'700'000'000'000},
            .config_json = "{}",
            .directory = "/t",
            .report_to = {Tracker::kJsonLines, Tracker::kTensorBoard, Tracker::kWandb},
            .every = every};
  }
  ReportTest() { report_.emplace(Args()); }

  void Tell(v1::JobEvent event) {
    store::Batch batch;
    batch.events.push_back(std::move(event));
    ASSERT_TRUE(store_.Commit(batch).ok());
  }
  void Step(int64_t finished, double loss) { Tell(StepEvent(0, finished, loss)); }
  void Eval(int64_t finished, double loss) {
    v1::JobEvent event = EvalEvent(0, finished, loss);
    Tell(event);
  }
  absl::Status Follow() { return trackers::Follow(&store_, &files_, &report_); }
  std::string Read(const std::string& path) { return files_.Read(path).value_or("none"); }
  // "<step>:<loss>" of each line, "e" before those of evaluations.
  std::string Lines() {
    std::istringstream in(Read(kLines));
    std::string out;
    for (std::string line; std::getline(in, line);) {
      const auto json = nlohmann::json::parse(line);
      const bool eval = json.contains("eval/loss");
      out += (eval ? "e" : "") + json["step"].dump() + ":" +
             json[eval ? "eval/loss" : "train/loss"].dump() + " ";
    }
    return out;
  }
  // As TensorBoard's reader does: an entry that takes back removes what it says.
  std::string Shown() {
    const std::string file = Read(kEvents);
    std::vector<std::pair<int64_t, std::string>> points;
    for (size_t at = 0; at + 12 <= file.size();) {
      size_t size = 0;
      for (int i = 7; i >= 0; --i) size = size << 8 | static_cast<uint8_t>(file[at + i]);
      TensorBoardEvent event;
      EXPECT_TRUE(event.ParseFromString(file.substr(at + 12, size)));
      at += size + 16;
      if (event.has_session_log()) {
        std::erase_if(points, [&](const auto& point) { return point.first >= event.step(); });
      }
      if (!event.has_summary()) continue;
      const auto& value = event.summary().value(0);
      std::ostringstream text;
      text << (value.tag() == "eval/loss" ? "e" : "") << event.step() << ":"
           << value.simple_value();
      points.emplace_back(event.step(), text.str());
    }
    std::string out;
    for (const auto& point : points) out += point.second + " ";
    return out;
  }

  sim::MemoryFiles files_;
  store::MemoryStore store_;
  std::optional<Report> report_;
};

TEST_F(ReportTest, EachPointStandsInEachFile) {
  Eval(0, 5);
  Step(1, 4);
  Step(2, 3.5);
  Eval(2, 3.25);
  ASSERT_TRUE(Follow().ok());
  EXPECT_EQ(Lines(), "e0:5.0 1:4.0 2:3.5 e2:3.25 ");
  EXPECT_EQ(Shown(), "e0:5 1:4 2:3.5 e2:3.25 ");
  EXPECT_TRUE(Read(kRun).starts_with(":W&B"));
}

TEST_F(ReportTest, OnlyEveryNthStepIsAPoint) {
  report_.emplace(Args(/*every=*/2));
  for (const int64_t step : {1, 2, 3, 4}) Step(step, 1);
  ASSERT_TRUE(Follow().ok());
  EXPECT_EQ(Lines(), "2:1.0 4:1.0 ");
}

// Invariant trackers-2.
TEST_F(ReportTest, AStepThatIsTrainedAgainReplacesAllFromItOn) {
  for (const int64_t step : {1, 2, 3, 4}) Step(step, 1);
  Eval(4, 8);
  ASSERT_TRUE(Follow().ok());
  Step(3, 2);
  ASSERT_TRUE(Follow().ok());
  EXPECT_EQ(Lines(), "1:1.0 2:1.0 3:2.0 ");
  EXPECT_EQ(Shown(), "1:1 2:1 3:2 ");
  Step(4, 2);
  Eval(4, 9);
  Eval(4, 9);
  ASSERT_TRUE(Follow().ok());
  EXPECT_EQ(Lines(), "1:1.0 2:1.0 3:2.0 4:2.0 e4:9.0 ");
}

// Also where the step itself is no point.
TEST_F(ReportTest, AStepBetweenPointsTakesBackThoseBehindIt) {
  report_.emplace(Args(/*every=*/2));
  for (const int64_t step : {1, 2, 3, 4}) Step(step, 1);
  ASSERT_TRUE(Follow().ok());
  Step(3, 2);
  ASSERT_TRUE(Follow().ok());
  EXPECT_EQ(Lines(), "2:1.0 ");
  EXPECT_EQ(Shown(), "2:1 ");
}

// Invariant trackers-1. Bytes that a reader has read stay where they are.
TEST_F(ReportTest, AnotherReportWritesTheSameBytes) {
  for (const int64_t step : {1, 2, 3, 2, 3, 4}) Step(step, static_cast<double>(step));
  Tell(EndEvent(0, "SUCCEEDED"));
  ASSERT_TRUE(Follow().ok());
  EXPECT_TRUE(report_->ended());
  const std::string lines = Read(kLines), events = Read(kEvents), run = Read(kRun);
  report_.emplace(Args());
  ASSERT_TRUE(report_->Write(&files_, /*whole=*/false).ok());
  EXPECT_EQ(Read(kEvents), events) << "its rest is not there for a while";
  ASSERT_TRUE(Follow().ok());
  EXPECT_EQ(Read(kLines), lines);
  EXPECT_EQ(Read(kEvents), events);
  EXPECT_EQ(Read(kRun), run);
}

TEST_F(ReportTest, WhatIsLeftOfALongerFileIsCut) {
  Step(1, 1);
  ASSERT_TRUE(Follow().ok());
  const std::string lines = Read(kLines);
  ASSERT_TRUE(files_.WriteDurably(kLines, lines + "{\"step\": 2, half a li").ok());
  report_.emplace(Args());
  ASSERT_TRUE(Follow().ok());
  EXPECT_EQ(Read(kLines), lines);
}

TEST_F(ReportTest, WhatCouldNotBeWrittenIsWrittenLater) {
  Step(1, 1);
  files_.FailWrites("/t/jsonl", absl::ResourceExhaustedError("disk full"));
  EXPECT_TRUE(absl::IsResourceExhausted(Follow()));
  EXPECT_EQ(Shown(), "1:1 ") << "another file goes on";
  Step(2, 1);
  files_.FailWrites("", absl::OkStatus());
  ASSERT_TRUE(Follow().ok());
  EXPECT_EQ(Lines(), "1:1.0 2:1.0 ");
}

TEST_F(ReportTest, AFileThatSomebodyRemovedIsWrittenAnew) {
  Step(1, 1);
  ASSERT_TRUE(Follow().ok());
  ASSERT_TRUE(files_.RemoveAll("/t").ok());
  Step(2, 1);
  EXPECT_TRUE(absl::IsDataLoss(Follow()));
  ASSERT_TRUE(Follow().ok());
  EXPECT_EQ(Lines(), "1:1.0 2:1.0 ");
  EXPECT_EQ(Shown(), "1:1 2:1 ");
}

TEST_F(ReportTest, ALossThatIsNotFiniteIsAWord) {
  Step(1, std::numeric_limits<double>::quiet_NaN());
  Step(2, -std::numeric_limits<double>::infinity());
  ASSERT_TRUE(Follow().ok());
  EXPECT_EQ(Lines(), "1:\"NaN\" 2:\"-Infinity\" ");
}

TEST_F(ReportTest, LongHistoriesAreReadInPages) {
  for (int64_t step = 1; step <= 1200; ++step) Step(step, 1);
  ASSERT_TRUE(Follow().ok());
  EXPECT_EQ(report_->cursor(), 1200);
  EXPECT_NE(Lines().find(" 1200:1.0 "), std::string::npos);
}

TEST_F(ReportTest, EveryNameOfAPointIsKnown) {
  v1::JobEvent step = StepEvent(1, 1, 1);
  v1::JobEvent eval = EvalEvent(2, 1, 1);
  eval.mutable_eval_done()->set_eval_perplexity(2);
  eval.mutable_eval_done()->set_eval_token_accuracy(0.5);
  v1::ExpertUse& use = *step.mutable_step_done()->mutable_experts();
  use.set_balance_loss(1);
  use.set_z_loss(1);
  for (const auto of : {v1::Preference::LOG_PROBS, v1::Preference::LABELS}) {
    v1::Preference means;
    means.set_of(of);
    means.set_pairs(true);
    *step.mutable_step_done()->mutable_preference() = means;
    *eval.mutable_eval_done()->mutable_preference() = means;
    for (const v1::JobEvent& event : {step, eval}) {
      const Point point = *PointOf(event);
      for (const auto& [name, value] : point.values) {
        const auto& names = PointNames();
        EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
      }
    }
  }
}

}  // namespace
}  // namespace coxswain::trackers
