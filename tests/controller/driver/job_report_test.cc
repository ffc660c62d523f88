// What a job shows of itself: progress, gauges, log lines and the wording of its history.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/logging.h"
#include "controller/checkpoint/checkpoint_files.h"
#include "controller/checkpoint/loss_trend.h"
#include "controller/driver/training/replays.h"
#include "tests/sim/simulation.h"
#include "tests/support/job_test.h"

namespace coxswain::sim {
namespace {

class JobReportTest : public support::JobTest {
 protected:
  // NaN: the job has no such series.
  static double Gauge(Simulation& sim, const std::string& name, const std::string& job) {
    for (const auto& family : sim.metrics().Collect()) {
      if (family.name != name) continue;
      for (const auto& metric : family.metric) {
        const bool mine = std::any_of(metric.label.begin(), metric.label.end(), [&](const auto& l) {
          return l.name == "job" && l.value == job;
        });
        if (mine) return metric.gauge.value;
      }
    }
    return std::nan("");
  }
  static std::vector<std::string> Messages(Simulation& sim, const std::string& id,
                                           const std::string& type) {
    std::vector<std::string> out;
    for (const v1::JobEvent& event : sim.Events(id, type)) out.push_back(event.message());
    return out;
  }
  static void ExpectIdle(Simulation& sim, const std::string& id) {
    EXPECT_EQ(sim.Job(id).progress().eta_seconds(), 0);
    EXPECT_EQ(Gauge(sim, "coxswain_eta_seconds", id), 0);
    EXPECT_EQ(Gauge(sim, "coxswain_dispatch_credits", id), 0);
    EXPECT_EQ(Gauge(sim, "coxswain_tokens_per_second", id), 0);
  }
};

TEST_F(JobReportTest, AJobWithNoStepLeftShowsTheNumbersOfTheCheckpoint) {
  Simulation sim({});
  const std::string first = sim.Submit({.name = "a", .output_dir = "/out/shared"});
  ASSERT_TRUE(sim.RunUntilState(first, v1::JOB_STATE_SUCCEEDED));
  const std::string second = sim.Submit({.name = "b", .output_dir = "/out/shared"});
  ASSERT_TRUE(sim.RunUntilState(second, v1::JOB_STATE_SUCCEEDED));
  EXPECT_TRUE(sim.Events(second, "StepDone").empty());
  const v1::Progress& before = sim.Job(first).progress();
  const v1::Progress& after = sim.Job(second).progress();
  EXPECT_GT(before.loss(), 0);
  EXPECT_EQ(after.step(), 12);
  EXPECT_EQ(after.loss(), before.loss());
  EXPECT_EQ(after.grad_norm(), before.grad_norm());
  EXPECT_EQ(after.learning_rate(), before.learning_rate());
  EXPECT_EQ(after.tokens(), before.tokens());
  EXPECT_EQ(after.eval_loss(), before.eval_loss());
  const auto changes = Messages(sim, second, "StateChanged");
  EXPECT_EQ(std::count(changes.begin(), changes.end(), "no step was left"), 1);
}

TEST_F(JobReportTest, MeasuredLinksOutliveTheController) {
  Simulation sim({});
  const auto measured = [&](const std::string& id) {
    return sim.Events(id, "GangFormed").front().gang_formed().predicted().links_measured();
  };
  const std::string first = sim.Submit({.name = "a"});
  ASSERT_TRUE(sim.RunUntilState(first, v1::JOB_STATE_SUCCEEDED));
  EXPECT_FALSE(measured(first));
  const auto links = sim.registry().links().Find(sim.registry().All());
  ASSERT_FALSE(links.empty());
  sim.CrashController();
  sim.StartController();
  const std::string second = sim.Submit({.name = "b"});
  ASSERT_TRUE(sim.RunUntilState(second, v1::JOB_STATE_SUCCEEDED));
  EXPECT_TRUE(measured(second));
  EXPECT_EQ(sim.registry().links().Find(sim.registry().All()), links);
}

TEST_F(JobReportTest, TheUseOfExpertsIsInEventsProgressAndGauges) {
  Simulation dense({});
  const std::string plain = dense.Submit({});
  ASSERT_TRUE(dense.RunUntilState(plain, v1::JOB_STATE_SUCCEEDED));
  EXPECT_FALSE(dense.Events(plain, "StepDone").back().step_done().has_experts());
  EXPECT_FALSE(dense.Job(plain).progress().has_experts());
  EXPECT_TRUE(std::isnan(Gauge(dense, "coxswain_expert_load_ratio", plain)));

  Simulation sim({});
  v1::ExpertUse use;
  use.set_load_ratio(1.5);
  use.set_unused_experts(4);
  use.set_balance_loss(2.25);
  sim.workers().set_experts(use);
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  for (const v1::JobEvent& event : sim.Events(id, "StepDone")) {
    EXPECT_EQ(event.step_done().experts().SerializeAsString(), use.SerializeAsString());
  }
  EXPECT_EQ(sim.Job(id).progress().experts().SerializeAsString(), use.SerializeAsString());
  EXPECT_EQ(Gauge(sim, "coxswain_expert_load_ratio", id), 1.5);
  EXPECT_EQ(Gauge(sim, "coxswain_router_balance_loss", id), 2.25);
  EXPECT_TRUE(std::isnan(Gauge(sim, "coxswain_router_z_loss", id)));
}

// Another mesh sums in another order.
TEST_F(JobReportTest, AReplayUnderAnotherPlanIsNotCompared) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 5; }, 60'000));
  sim.deps().lane_work->plan = [plan = sim.deps().lane_work->plan](const driver::PlanInput& input) {
    absl::StatusOr<driver::GangPlan> changed = plan(input);
    changed->bytes += " on other hosts";
    changed->hash = Sha256(changed->bytes);
    return changed;
  };
  sim.RestartWorker(1, 500);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  const auto warnings = Messages(sim, id, "Warning");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("are not compared bit by bit"), std::string::npos);
}

TEST_F(JobReportTest, OtherThreadsThanTheCheckpointsAreWarnedOf) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 3});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).checkpoints_size() > 0; }, 60'000));
  sim.RestartWorker(1, 500);
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).epoch() == 2; }, 60'000));
  EXPECT_TRUE(Messages(sim, id, "Warning").empty()) << "as many as before";
  for (const int slot : {0, 1}) sim.workers().set_threads(slot, 4);
  for (const int slot : {0, 1}) sim.RestartWorker(slot, 500);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  const auto warnings = Messages(sim, id, "Warning");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("computed with 1 CPU thread a worker, these workers have 4"),
            std::string::npos)
      << warnings[0];
}

// Also where the steps are done again.
TEST_F(JobReportTest, ARisingLossIsWarnedOfOnce) {
  Simulation sim({});
  const std::string id = sim.Submit({.steps = 60, .save_steps = 100});
  sim.workers().Diverge(30);
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 50; }, 600'000));
  sim.RestartWorker(0, 100);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  checkpoint::LossTrend trend;
  for (const v1::JobEvent& event : sim.Events(id, "StepDone")) {
    trend.Add(event.step_done().step() + 1, event.step_done().loss());
  }
  ASSERT_TRUE(trend.rise);
  std::vector<std::string> rises = Messages(sim, id, "Warning");
  std::erase_if(rises, [](const std::string& text) { return !text.starts_with("the loss rises"); });
  ASSERT_EQ(rises.size(), 1u);
  EXPECT_NE(rises[0].find(absl::StrCat(" to ", trend.rise->now.step, " is")), std::string::npos)
      << rises[0];
}

// One host's ranks add up in another order than those of two, and nothing else of the gang tells.
TEST_F(JobReportTest, AReplayOverOtherHostsIsNotCompared) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 100});
  const auto at_step = [&](int64_t step) {
    return sim.RunUntil([&] { return sim.Job(id).progress().step() == step; }, 60'000);
  };
  ASSERT_TRUE(at_step(5));
  sim.workers().MoveTo(1, "elsewhere");
  sim.RestartWorker(1, 500);
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).epoch() == 2; }, 60'000));
  ASSERT_TRUE(at_step(7));
  EXPECT_TRUE(Messages(sim, id, "ReplayDivergence").empty());
  EXPECT_EQ(Messages(sim, id, "Warning").size(), 1u);
  // Once more over the same hosts: compared, and equal.
  sim.RestartWorker(1, 500);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_TRUE(Messages(sim, id, "ReplayDivergence").empty());
  const auto warnings = Messages(sim, id, "Warning");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("are not compared bit by bit"), std::string::npos);
  std::vector<std::string> whole;
  for (const v1::JobEvent& event : sim.Events(id, "GangFormed")) {
    whole.push_back(event.gang_formed().fingerprint());
  }
  ASSERT_EQ(whole.size(), 3u);
  EXPECT_EQ(whole[0], "sim hosts=0@sim,1@sim");
  EXPECT_EQ(whole[1], "sim hosts=0@elsewhere,1@sim");
  EXPECT_EQ(whole[2], whole[1]);
}

// A release that recorded the first half alone says nothing of the order of its sums.
TEST(ReplaysTest, HalfAFingerprintIsAnotherOne) {
  gang::Gang gang;
  gang.fingerprint = "f transport=nccl hosts=0*2";
  gang.ranks.resize(2);
  store::EpochRow epoch{.fingerprint = gang.fingerprint, .world_size = 2};
  EXPECT_TRUE(driver::MustAgree(epoch, gang, nullptr));
  epoch.fingerprint = "f";
  EXPECT_FALSE(driver::MustAgree(epoch, gang, nullptr));
}

// On other hosts, say, whose own choices the new gang has to take.
TEST(ReplaysTest, AnotherGemmTableGivesOtherBits) {
  gang::Gang gang;
  gang.fingerprint = "f";
  gang.gemm_table = "a";
  gang.ranks.resize(1);
  store::EpochRow epoch{.fingerprint = "f", .world_size = 1, .gemm_table = "a"};
  EXPECT_TRUE(driver::MustAgree(epoch, gang, nullptr));
  epoch.gemm_table = "b";
  EXPECT_FALSE(driver::MustAgree(epoch, gang, nullptr));
  EXPECT_EQ(driver::LastGemmTable({epoch, {.gemm_table = "c"}, {}}), "c");
  EXPECT_EQ(driver::LastGemmTable({}), "");
}

TEST(ReplaysTest, LinksAndPredictionsComputeNothing) {
  const plan::Plan one;
  plan::Plan other;
  other.links = {{1024, 1e9}};
  other.links_measured = true;
  other.predicted.step_seconds = 1;
  EXPECT_TRUE(driver::SameArithmetic(one, other));
  other.replicate = 2;
  EXPECT_FALSE(driver::SameArithmetic(one, other));
  other.replicate = 1;
  other.attention_workspace_bytes *= 2;  // may have chosen another algorithm
  EXPECT_FALSE(driver::SameArithmetic(one, other));
}

// What the alerts on checkpoints and disk compare.
TEST_F(JobReportTest, CheckpointGaugesFollowTheCommits) {
  Simulation sim({});
  const std::string id = sim.Submit({.name = "a", .output_dir = "/out/a"});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_RUNNING));
  EXPECT_EQ(Gauge(sim, "coxswain_last_checkpoint_step", id), 0);
  const double interval = Gauge(sim, "coxswain_checkpoint_interval_steps", id);
  EXPECT_GT(interval, 0);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(Gauge(sim, "coxswain_last_checkpoint_step", id), sim.Job(id).progress().step());
  EXPECT_EQ(Gauge(sim, "coxswain_output_free_bytes", id), double{1 << 30});
}

TEST_F(JobReportTest, NothingIsPredictedOnceAJobStopsRunning) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 4; }, 60'000));
  EXPECT_GT(sim.Job(id).progress().eta_seconds(), 0);
  EXPECT_GT(Gauge(sim, "coxswain_eta_seconds", id), 0);
  EXPECT_GT(Gauge(sim, "coxswain_dispatch_credits", id), 0);
  ASSERT_TRUE((*sim.jobs().Find(id))->Pause().ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_PAUSED));
  ExpectIdle(sim, id);
  ASSERT_TRUE((*sim.jobs().Find(id))->Resume(0).ok());
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 8; }, 60'000));
  ASSERT_TRUE((*sim.jobs().Find(id))->Cancel().ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_CANCELLED));
  ExpectIdle(sim, id);

  const std::string whole = sim.Submit({.name = "whole"});
  ASSERT_TRUE(sim.RunUntilState(whole, v1::JOB_STATE_SUCCEEDED));
  ExpectIdle(sim, whole);

  const std::string bad = sim.Submit({.name = "bad", .save_steps = 100, .max_restarts = 0});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(bad).progress().step() == 4; }, 60'000));
  sim.RestartWorker(0, 100);
  ASSERT_TRUE(sim.RunUntilState(bad, v1::JOB_STATE_FAILED));
  ExpectIdle(sim, bad);
}

TEST_F(JobReportTest, TheLogHasALineOfEveryLoggedStep) {
  log::Init("test", log::Level::kInfo);
  Simulation sim({});
  const std::string id = sim.Submit({.name = "logged"});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  log::Init("test", log::Level::kError);
  std::vector<int64_t> steps;
  for (const log::Line& line : log::Lines(0)) {
    const auto fields = nlohmann::json::parse(line.json);
    if (fields.value("job", "") != id || !fields.contains("loss")) continue;
    steps.push_back(fields.at("step"));
    EXPECT_EQ(fields.at("level"), "info");
    EXPECT_EQ(fields.at("epoch"), 1);
    for (const char* name : {"loss", "grad_norm", "learning_rate", "tokens_per_second"}) {
      EXPECT_GT(fields.at(name).get<double>(), 0) << name;
    }
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
}

// Hits are summed over ranks and commands before they are divided: fake ranks hit a quarter each.
TEST_F(JobReportTest, AnEvaluationTellsPerplexityAndTokenAccuracy) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  const v1::Progress& progress = sim.Job(id).progress();
  EXPECT_DOUBLE_EQ(progress.eval_perplexity(), std::exp(progress.eval_loss()));
  ASSERT_TRUE(progress.has_eval_token_accuracy());
  EXPECT_EQ(progress.eval_token_accuracy(), 0.25);  // 10 of the 40 targets of each bin
  const v1::JobEvent last = sim.Events(id, "EvalDone").back();
  EXPECT_EQ(last.eval_done().eval_token_accuracy(), progress.eval_token_accuracy());
  EXPECT_EQ(last.eval_done().eval_perplexity(), progress.eval_perplexity());
  EXPECT_NE(last.message().find(", perplexity "), std::string::npos) << last.message();
  EXPECT_NE(last.message().find(", token accuracy 25.0 %"), std::string::npos) << last.message();
  EXPECT_EQ(Gauge(sim, "coxswain_eval_token_accuracy_ratio", id), progress.eval_token_accuracy());
  EXPECT_EQ(Gauge(sim, "coxswain_eval_perplexity", id), progress.eval_perplexity());
}

// Events of the job's steps; `first`: those alone that were done for the first time.
std::vector<v1::JobEvent> StepsOf(Simulation& sim, const std::string& id, bool first) {
  std::vector<v1::JobEvent> steps;
  int64_t next = 0;
  for (const v1::JobEvent& event : sim.Events(id, "StepDone")) {
    if (first && event.step_done().step() < next) continue;
    next = std::max(next, event.step_done().step() + 1);
    steps.push_back(event);
  }
  return steps;
}

double Seconds(const std::vector<v1::JobEvent>& steps) {
  double seconds = 0;
  for (const v1::JobEvent& event : steps) seconds += event.step_done().seconds();
  return seconds;
}

// A step that is done again counts as time, not as work.
TEST_F(JobReportTest, GoodputIsTheTimeOfStepsDoneOnceOverTheTimeSinceTheStart) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 100});
  const auto goodput = [&] { return Gauge(sim, "coxswain_goodput_ratio", id); };
  const auto at_step = [&](int64_t step) {
    return sim.RunUntil([&] { return sim.Job(id).progress().step() == step; }, 60'000);
  };
  ASSERT_TRUE(at_step(6));
  const double smooth = goodput();
  sim.RestartWorker(1, 500);
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).epoch() == 2; }, 60'000));
  ASSERT_TRUE(at_step(9));
  const std::vector<v1::JobEvent> all = StepsOf(sim, id, false), first = StepsOf(sim, id, true);
  ASSERT_GT(all.size(), first.size());
  const double wall =
      static_cast<double>(all.back().time_unix_ms() - sim.Job(id).started_unix_ms()) * 1e-3;
  EXPECT_DOUBLE_EQ(goodput(), Seconds(first) / wall);
  EXPECT_LT(goodput(), Seconds(all) / wall);
  EXPECT_LT(goodput(), smooth);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
}

// Of two ranks whose device has a known peak: 1,000 operations a token, over the newest ten steps.
TEST_F(JobReportTest, UtilisationIsOperationsOfTheNewestStepsOverThePeakOfAllRanks) {
  Simulation sim(SlowSteps(/*workers=*/0));
  sim.workers().set_device_name("NVIDIA H100 80GB HBM3");
  for (const int slot : {0, 1}) sim.StartWorker(slot, "cuda");
  const std::string id = sim.Submit({.steps = 20, .resources = "device: cuda, workers: 2"});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 15; }, 60'000));
  double tokens = 0, seconds = 0;
  const std::vector<v1::JobEvent> steps = StepsOf(sim, id, false);
  ASSERT_EQ(steps.size(), 15u);
  for (size_t i = 5; i < 15; ++i) {
    tokens += static_cast<double>(steps[i].step_done().tokens());
    seconds += steps[i].step_done().seconds();
  }
  ASSERT_GT(tokens, 0);
  EXPECT_DOUBLE_EQ(Gauge(sim, "coxswain_tokens_per_second", id), tokens / seconds);
  EXPECT_DOUBLE_EQ(Gauge(sim, "coxswain_mfu_ratio", id),
                   1000 * (tokens / seconds) / (2 * 989.4e12));
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(Gauge(sim, "coxswain_mfu_ratio", id), 0);
}

// Source: transformers, trainer_callback.py, TrainerState.
TEST_F(JobReportTest, TrainerStateHasTheTimesAndTotalsThatPlottingToolsRead) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  const auto read = [&](int64_t step) {
    return nlohmann::json::parse(*sim.files().Read(
        absl::StrCat(checkpoint::CheckpointDirectory("/out/job", step), "/trainer_state.json")));
  };
  const auto state = read(12);
  const double tokens = state.at("num_input_tokens_seen");
  EXPECT_EQ(tokens, static_cast<double>(sim.Job(id).progress().tokens()));
  EXPECT_EQ(state.at("total_flos"), 1000 * tokens);
  EXPECT_EQ(state.at("train_batch_size"), 2);
  double sum = 0, steps = 0, evaluations = 0, eval_seconds = 0;
  for (const auto& entry : state.at("log_history")) {
    if (entry.contains("loss")) sum += entry.at("loss").get<double>(), ++steps;
    if (!entry.contains("eval_loss")) continue;
    ++evaluations;
    const double seconds = entry.at("eval_runtime");
    EXPECT_GT(seconds, 0);
    eval_seconds += seconds;
    EXPECT_DOUBLE_EQ(entry.at("eval_perplexity"), std::exp(entry.at("eval_loss").get<double>()));
    EXPECT_GT(entry.at("eval_mean_token_accuracy"), 0);
    EXPECT_DOUBLE_EQ(entry.at("eval_steps_per_second"), 3 / seconds);
    EXPECT_DOUBLE_EQ(entry.at("eval_samples_per_second"), 6 / seconds);
  }
  EXPECT_EQ(steps, 12);
  EXPECT_EQ(evaluations, 4);
  const auto& last = state.at("log_history").back();
  const double runtime = last.at("train_runtime");
  EXPECT_GT(runtime, eval_seconds);
  EXPECT_DOUBLE_EQ(last.at("train_steps_per_second"), 12 / runtime);
  EXPECT_DOUBLE_EQ(last.at("train_samples_per_second"), 48 / runtime);
  EXPECT_DOUBLE_EQ(last.at("train_loss"), sum / 12);
  EXPECT_EQ(last.at("total_flos"), state.at("total_flos"));
  EXPECT_FALSE(read(9).at("log_history").back().contains("train_runtime"));
}

// Invariant controller-6. Its length grows with the job: it is made where the files are written,
// not when the loop hears of the snapshot.
TEST_F(JobReportTest, TheTrainerStateIsMadeWhenTheShardsAreThere) {
  class Asked : public SyntheticCurriculum {
   public:
    Asked(MemoryFiles* files, int* early) : SyntheticCurriculum({}), files_(files), early_(early) {}
    double passes_after(int64_t finished_steps) const override {
      const bool late = files_->Exists(
          checkpoint::StagingDirectory("/out/job", {"job-1", 1, 1}, 12) + "/rank-0.shard");
      *early_ += !late;
      return SyntheticCurriculum::passes_after(finished_steps);
    }

   private:
    MemoryFiles* const files_;
    int* const early_;
  };
  Simulation sim({});
  int early = 0;
  sim.deps().lane_work->prepare = [&](const config::JobSpec&, const driver::PrepareHooks&) {
    return std::make_shared<Asked>(&sim.files(), &early);
  };
  const std::string id = sim.Submit({.save_steps = 100});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(early, 1);  // for the manifest
}

TEST_F(JobReportTest, OneIsNotCountedAsMany) {
  Simulation::Options options;
  options.workers = 1;
  Simulation sim(options);
  const std::string id = sim.Submit({.workers = 1, .steps = 1});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(Messages(sim, id, "GangFormed").front(), "gang 1: 1 rank, from step 0");
  const std::string prepared = Messages(sim, id, "DataPrepared").front();
  EXPECT_TRUE(prepared.ends_with(" tokens, 1 step")) << prepared;
  const std::vector<std::string> changes = Messages(sim, id, "StateChanged");
  EXPECT_EQ(std::count(changes.begin(), changes.end(), "1 worker reserved"), 1);
}

TEST_F(JobReportTest, TheHistorySaysEachThingOnce) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 100, .max_restarts = 1});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 4; }, 60'000));
  ASSERT_TRUE((*sim.jobs().Find(id))->Pause().ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_PAUSED));
  ASSERT_TRUE((*sim.jobs().Find(id))->Resume(0).ok());
  for (const v1::JobState next : {v1::JOB_STATE_RECOVERING, v1::JOB_STATE_FAILED}) {
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_RUNNING));
    sim.RestartWorker(0, 100);
    ASSERT_TRUE(sim.RunUntilState(id, next));
  }
  EXPECT_EQ(sim.Events(id, "DataPrepared").size(), 1u);
  EXPECT_EQ(Messages(sim, id, "GangFormed").front(), "gang 1: 2 ranks, from step 0");
  std::vector<std::string> all = Messages(sim, id, "");
  EXPECT_EQ(std::count(all.begin(), all.end(), "2 workers reserved"), 3);
  EXPECT_EQ(std::count(all.begin(), all.end(), "workers reserved"), 0);
  const std::string sentence = sim.Job(id).error().message().substr(0, 30);
  EXPECT_EQ(std::count_if(all.begin(), all.end(),
                          [&](const auto& text) { return text.find(sentence) != text.npos; }),
            2);  // AttemptFailed, once per attempt
  EXPECT_EQ(Messages(sim, id, "StateChanged").back(), "failed after 1 restart");
  EXPECT_NE(sim.Job(id).error().message().find("worker lost"), std::string::npos);
}

}  // namespace
}  // namespace coxswain::sim
