// Preparations that may have ended a controller: counted in the store, repeated alone, and given up
// at the third start.
#include "controller/driver/job/job_preparation.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/config/parser/stored_job.h"
#include "controller/driver/preparation/preparation_gate.h"
#include "tests/sim/fakes/synthetic_curriculum.h"
#include "tests/sim/simulation.h"
#include "tests/support/job_part_test.h"
#include "tests/support/job_test.h"

namespace coxswain::sim {
namespace {

TEST(PreparationGateTest, LetsThemRunBesideEachOther) {
  driver::PreparationGate gate;
  std::string begun;
  gate.Enter(false, [&] { begun += "a"; });
  gate.Enter(false, [&] { begun += "b"; });
  EXPECT_EQ(begun, "ab");
}

TEST(PreparationGateTest, LetsOneThatIsSuspectRunAlone) {
  driver::PreparationGate gate;
  std::string begun;
  gate.Enter(false, [&] { begun += "a"; });
  gate.Enter(true, [&] { begun += "S"; });
  gate.Enter(true, [&] { begun += "T"; });
  gate.Enter(false, [&] { begun += "b"; });
  EXPECT_EQ(begun, "a");
  gate.Leave();
  EXPECT_EQ(begun, "aS");
  gate.Leave();
  EXPECT_EQ(begun, "aST");
  gate.Leave();
  EXPECT_EQ(begun, "aSTb");
}

class JobPreparationTest : public support::JobTest {
 protected:
  int64_t Unended(Simulation& sim, const std::string& id) {
    return sim.store().UnendedPreparations(id).value();
  }
  // As a controller leaves it that ends while it prepares the data of these jobs.
  void EndsWhilePreparing(Simulation& sim, const std::vector<std::string>& ids) {
    sim.CrashController();
    for (const std::string& id : ids) {
      ASSERT_TRUE(sim.store().SetUnendedPreparations(id, Unended(sim, id) + 1).ok());
    }
    sim.StartController();
  }
  // As the store has a job of a release that knew no data_rules.
  void StartOverTheJobOfAnEarlierRelease(Simulation& sim, const std::string& id,
                                         const std::string& recipe_hash) {
    sim.CrashController();
    store::Batch batch;
    batch.jobs = sim.store().Jobs().value();
    ASSERT_EQ(batch.jobs.size(), 1u);
    v1::Job& job = batch.jobs[0].job;
    auto effective = nlohmann::ordered_json::parse(job.effective_json());
    ASSERT_EQ(effective["spec"].erase("data_rules"), 1u);
    job.set_effective_json(effective.dump(2));
    job.set_recipe_hash(recipe_hash);
    ASSERT_TRUE(sim.store().Commit(batch).ok());
    sim.StartController();
    ASSERT_TRUE((*sim.jobs().Find(id))->Resume(0).ok());
  }
  static int64_t StoredDataRules(Simulation& sim) {
    const store::JobRow row = sim.store().Jobs().value().at(0);
    return config::ReadStoredJob(row.job.effective_json(), row.job.yaml(), row.base_dir)
        .spec.data_rules;
  }
};

TEST_F(JobPreparationTest, IsGivenUpAtTheThirdStartAndTheJobBesideItRuns) {
  Simulation sim({});
  const std::string poison = sim.Submit({.name = "poison"});
  const std::string good = sim.Submit({.name = "good"});
  EndsWhilePreparing(sim, {poison, good});  // nobody knows which
  EndsWhilePreparing(sim, {poison});        // alone
  ASSERT_TRUE(sim.RunUntilState(poison, v1::JOB_STATE_FAILED)) << sim.Job(poison).DebugString();
  const v1::Error& error = sim.Job(poison).error();
  EXPECT_EQ(error.kind(), v1::ERROR_KIND_USER);
  EXPECT_NE(error.message().find("the controller ended 2 times in a row"), std::string::npos)
      << error.message();
  ASSERT_TRUE(sim.RunUntilState(good, v1::JOB_STATE_SUCCEEDED)) << sim.Job(good).DebugString();
  EXPECT_EQ(Unended(sim, good), 0);
  ExpectClean(sim);
}

// Two innocent jobs that were under way when a third one ended the controller.
TEST_F(JobPreparationTest, AnEndCostsOthersOnlyThatTheyArePreparedOneByOne) {
  Simulation sim({});
  std::vector<std::string> ids;
  for (const char* name : {"a", "b", "c"}) ids.push_back(sim.Submit({.name = name}));
  EndsWhilePreparing(sim, ids);
  for (const std::string& id : ids) {
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.Job(id).DebugString();
    EXPECT_EQ(Unended(sim, id), 0);
    bool told = false;
    for (const v1::JobEvent& event : sim.Events(id, "Warning")) {
      told |= event.message().find("with no other job's at the same time") != std::string::npos;
    }
    EXPECT_TRUE(told);
  }
  ExpectClean(sim);
}

TEST_F(JobPreparationTest, OneThatEndedWithAnErrorDoesNotCount) {
  Simulation sim({});
  sim.FailPreparation(absl::InvalidArgumentError("no trainable token"));
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FAILED));
  EXPECT_EQ(Unended(sim, id), 0);
}

TEST_F(JobPreparationTest, AControllerThatIsStoppedCountsNothingAndTheNextOnePrepares) {
  Simulation::Options options;
  options.lane_most_ms = 60'000;
  Simulation sim(options);
  const std::string id = sim.Submit({});
  sim.StopController(/*grace_ms=*/1000, /*down_ms=*/1000);
  sim.RunFor(500);
  EXPECT_EQ(Unended(sim, id), 0);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.Job(id).DebugString();
  ExpectClean(sim);
}

TEST_F(JobPreparationTest, AJobOfEarlierDataRulesThatWasNeverPreparedTakesTodays) {
  Simulation sim({});
  const std::string id = sim.Submit({}, /*paused=*/true);
  StartOverTheJobOfAnEarlierRelease(sim, id, "");
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.Job(id).DebugString();
  EXPECT_EQ(StoredDataRules(sim), config::kDataRules);
  bool told = false;
  for (const v1::JobEvent& event : sim.Events(id, "Warning")) {
    told |= event.message().find("accepted under data_rules 1,") != std::string::npos;
  }
  EXPECT_TRUE(told);
  ExpectClean(sim);
}

TEST_F(JobPreparationTest, AJobThatHasARecipeKeepsItsDataRules) {
  Simulation sim({});
  const std::string id = sim.Submit({}, /*paused=*/true);
  StartOverTheJobOfAnEarlierRelease(sim, id, "of earlier rules");
  EXPECT_EQ((*sim.jobs().Find(id))->spec().data_rules, 1);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.Job(id).DebugString();
  EXPECT_EQ(StoredDataRules(sim), 1);
}

// The part alone.
class JobPreparationPartTest : public support::JobPartTest {
 protected:
  JobPreparationPartTest() {
    row_.job.set_state(v1::JOB_STATE_PREPARING);
    spec_.data_rules = config::kDataRules;
    spec_.device = config::Device::kCpu;
    spec_.workers = 1;
    lane_work_.prepare = [this](const config::JobSpec&, const driver::PrepareHooks&)
        -> absl::StatusOr<std::shared_ptr<const driver::Curriculum>> {
      ++prepared_;
      return std::make_shared<SyntheticCurriculum>(SyntheticShape{.steps = 7});
    };
  }

  int prepared_ = 0;
};

TEST_F(JobPreparationPartTest, ACurriculumIsMadeOnceAndKeptUntilItIsForgotten) {
  driver::JobPreparation preparation(job());
  preparation.Start();
  RunFor(1);
  ASSERT_EQ(heard_.told(), std::vector<std::string>{"prepared"});
  EXPECT_EQ(job().record.job().progress().total_steps(), 7);
  EXPECT_EQ(Told("DataPrepared").size(), 1u);
  preparation.Start();  // at once
  EXPECT_EQ(heard_.told().size(), 2u);
  EXPECT_EQ(prepared_, 1);
  preparation.Forget();
  preparation.Start();
  RunFor(1);
  EXPECT_EQ(heard_.told().size(), 3u);
  EXPECT_EQ(prepared_, 2);
}

TEST_F(JobPreparationPartTest, WithoutItsSourcesNothingIsPrepared) {
  spec_.model_hub.id = "org/tiny";
  lane_work_.fetch = [](const auto&, const auto&,
                        const auto&) -> absl::StatusOr<std::vector<sources::FetchedSource>> {
    return absl::UnavailableError("no answer");
  };
  driver::JobPreparation preparation(job());
  preparation.Start();
  RunFor(1);
  EXPECT_EQ(heard_.told(), std::vector<std::string>{"prepared: no answer"});
  EXPECT_EQ(prepared_, 0);
}

// Invariant driver-13.
TEST_F(JobPreparationPartTest, AutoWorkersAreWaitedForWithTheDataPrepared) {
  spec_.workers = 0;
  driver::JobPreparation preparation(job());
  preparation.Start();
  RunFor(60'000);
  EXPECT_EQ(prepared_, 1);
  EXPECT_TRUE(preparation.WaitsForChoice());
  EXPECT_TRUE(heard_.told().empty());
}

TEST_F(JobPreparationPartTest, AStopTellsNobody) {
  driver::JobPreparation preparation(job());
  preparation.Start();
  preparation.Stop();
  RunFor(1);
  EXPECT_TRUE(heard_.told().empty());
  EXPECT_EQ(prepared_, 0) << "a preparation that was cancelled in time did not begin";
}

}  // namespace
}  // namespace coxswain::sim
