// The history that cox train keeps in the output directory, and the verbs that read it.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "controller/cli/jobs/kept_history.h"
#include "tests/controller/cli/run_cox.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::cli {
namespace {

using Json = nlohmann::json;

v1::Job Job(const std::string& id, int64_t created) {
  v1::Job job;
  job.set_id(id);
  job.set_name("tiny");
  job.set_state(v1::JOB_STATE_SUCCEEDED);
  job.set_created_unix_ms(created);
  job.set_recipe_hash(std::string("\x00\xff\x80", 3));
  job.mutable_progress()->set_step(2);
  job.mutable_progress()->set_loss(0.1 + 0.2);
  v1::SampleAnswers* sample = job.add_samples();
  sample->set_prompt("Why?");
  sample->set_answer("Because");
  sample->set_step(2);
  return job;
}

v1::JobEvent StepEvent(int64_t id, double loss) {
  v1::JobEvent event;
  event.set_id(id);
  event.set_type("StepDone");
  event.set_state(v1::JOB_STATE_RUNNING);
  event.set_time_unix_ms(FakeJobs::kNow - 1000);
  event.mutable_step_done()->set_step(id - 1);
  event.mutable_step_done()->set_loss(loss);
  return event;
}

TEST(KeptHistoryTest, ComesBackAsItWas) {
  const support::ScratchFolder folder;
  HistoryKeeper keeper(folder.path(), "tiny-1");
  keeper.Job(Job("older", 0));
  keeper.Event(StepEvent(1, 1.0 / 3));
  keeper.Event(StepEvent(2, std::numeric_limits<double>::quiet_NaN()));
  keeper.Job(Job("tiny-1", 5));
  ASSERT_TRUE(keeper.status().ok()) << keeper.status();
  for (const std::string& place : {folder.path(), keeper.directory()}) {
    const auto kept = ReadHistory(place);
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_EQ(kept->job.SerializeAsString(), Job("tiny-1", 5).SerializeAsString());
    ASSERT_EQ(kept->events.size(), 2u);
    EXPECT_EQ(kept->events[0].SerializeAsString(), StepEvent(1, 1.0 / 3).SerializeAsString());
    EXPECT_TRUE(std::isnan(kept->events[1].step_done().loss()));
    EXPECT_TRUE(kept->others.empty());
  }
}

TEST(KeptHistoryTest, TheNewestJobIsReadAndTheOthersAreNamed) {
  const support::ScratchFolder folder;
  for (const int64_t created : {3, 9, 6}) {
    const std::string id = "tiny-" + std::to_string(created);
    HistoryKeeper(folder.path(), id).Job(Job(id, created));
  }
  const auto kept = ReadHistory(folder.path());
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->job.id(), "tiny-9");
  EXPECT_EQ(kept->others, (std::vector<std::string>{folder.path() + "/history/tiny-3",
                                                    folder.path() + "/history/tiny-6"}));
}

TEST(KeptHistoryTest, AnEventThatWasCutIsLeftOut) {
  const support::ScratchFolder folder;
  HistoryKeeper keeper(folder.path(), "tiny-1");
  keeper.Job(Job("tiny-1", 5));
  keeper.Event(StepEvent(1, 2));
  std::ofstream(keeper.directory() + "/events.jsonl", std::ios::app) << "{\"id\": \"2\", \"ty";
  EXPECT_EQ(ReadHistory(folder.path())->events.size(), 1u);
}

TEST(KeptHistoryTest, WhatCannotBeWrittenIsNamed) {
  const support::ScratchFolder folder;
  const std::string file = folder.Write("file", "x");
  HistoryKeeper keeper(file, "tiny-1");
  keeper.Event(StepEvent(1, 2));
  keeper.Job(Job("tiny-1", 5));
  EXPECT_FALSE(keeper.status().ok());
  EXPECT_NE(keeper.status().ToString().find(file + "/history/tiny-1"), std::string::npos)
      << keeper.status();
}

TEST(KeptHistoryTest, FoldersAreToldFromJobs) {
  const support::ScratchFolder folder;
  EXPECT_TRUE(NamesFolder("./out"));
  EXPECT_TRUE(NamesFolder("."));
  EXPECT_FALSE(NamesFolder("tiny-1"));
  HistoryKeeper(folder.path() + "/out", "tiny-1").Job(Job("tiny-1", 5));
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  EXPECT_TRUE(NamesFolder("out")) << "it holds a history";
  std::filesystem::current_path(before);
}

TEST(KeptHistoryTest, EventsAndDescribeReadAFolder) {
  const support::ScratchFolder folder;
  HistoryKeeper keeper(folder.path(), "tiny-1");
  keeper.Event(StepEvent(1, 2.5));
  keeper.Job(Job("tiny-1", FakeJobs::kNow - 5000));
  const Ran events = RunInProcess({"events", folder.path()});
  EXPECT_EQ(events.code, 0) << events.err;
  EXPECT_EQ(events.out,
            "ID   AGE   TYPE       STATE     MESSAGE\n1    1s    StepDone   RUNNING   -\n");
  EXPECT_EQ(events.err,
            "job tiny-1, as cox train kept it in " + folder.path() + "/history/tiny-1\n");
  const Json json = Json::parse(RunInProcess({"events", folder.path(), "-o", "json"}).out);
  EXPECT_EQ(json["events"][0]["data"]["loss"], 2.5);
  const Ran described = RunInProcess({"describe", folder.path()});
  EXPECT_EQ(described.code, 0) << described.err;
  EXPECT_NE(described.out.find("\n      Because\n"), std::string::npos) << described.out;
  EXPECT_EQ(described.out.find("\nNext\n"), std::string::npos) << "no controller has the job";
  EXPECT_EQ(Json::parse(RunInProcess({"describe", folder.path(), "-o", "json"}).out)["id"],
            "tiny-1");
  EXPECT_EQ(RunInProcess({"events", folder.path(), "-f"}).code, 2);
  EXPECT_EQ(RunInProcess({"events", folder.path() + "/none"}).code, 4);
}

}  // namespace
}  // namespace coxswain::cli
