// Every operation of the Jobs service, without gRPC, over a simulated cluster.
#include "controller/api/operations.h"
#include "controller/api/hidden_jobs.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "controller/api/arguments.h"
#include "controller/api/registration.h"
#include "controller/driver/output/output_claim.h"
#include "tests/controller/api/operations_fixture.h"

namespace coxswain::api {
namespace {

// Invariant api-1.
TEST_F(OperationsTest, SubmitIsDurableAndIdempotent) {
  const v1::Job first = *Call(Submit, SubmitOf("a", "key"));
  EXPECT_EQ(sim_.store().Jobs()->size(), 1u);
  EXPECT_EQ(first.name(), "a");
  EXPECT_TRUE(first.id().starts_with("a-"));
  EXPECT_EQ(Call(Submit, SubmitOf("a", "key"))->id(), first.id());
  EXPECT_EQ(Call(Submit, SubmitOf("b", "key")).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_NE(Call(Submit, SubmitOf("b"))->id(), first.id());
  EXPECT_EQ(sim_.store().Jobs()->size(), 2u);
}

TEST_F(OperationsTest, SubmitTheSameKeyAfterARestartStillAnswersTheJob) {
  const std::string id = Call(Submit, SubmitOf("a", "key"))->id();
  sim_.CrashController();
  sim_.StartController();
  Wire();
  EXPECT_EQ(Call(Submit, SubmitOf("a", "key"))->id(), id);
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
}

TEST_F(OperationsTest, SubmitNamesEverySchemaErrorWithItsLine) {
  v1::SubmitRequest request = SubmitOf("a");
  request.set_yaml(request.yaml() + "  lerning: 1\n  recompute: sometimes\n");
  const absl::Status status = Call(Submit, request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("lerning"), absl::string_view::npos);
  EXPECT_NE(status.message().find("recompute"), absl::string_view::npos);
  EXPECT_NE(status.message().find("/jobs/job.yaml:"), absl::string_view::npos);
  EXPECT_TRUE(sim_.store().Jobs()->empty());
}

TEST_F(OperationsTest, SubmitThatCannotBeStoredIsNotAccepted) {
  sim_.store().set_write_error(absl::ResourceExhaustedError("disk full"));
  EXPECT_EQ(Call(Submit, SubmitOf("a", "key")).status().code(), absl::StatusCode::kUnavailable);
  sim_.store().set_write_error(absl::OkStatus());
  sim_.RunFor(3000);
  EXPECT_TRUE(sim_.store().Jobs()->empty());
  EXPECT_TRUE(Call(Submit, SubmitOf("a", "key")).ok());
}

TEST_F(OperationsTest, SubmitOfRandomWeightsNeedsTheConfigurationAlone) {
  ASSERT_TRUE(sim_.files().RemoveAll("/model/model.safetensors").ok());
  v1::SubmitRequest request = SubmitOf("a");
  std::string yaml = request.yaml();
  const std::string pretrained = "base_model: /model";
  ASSERT_NE(yaml.find(pretrained), std::string::npos) << yaml;
  yaml.replace(yaml.find(pretrained), pretrained.size(),
               "base_model: {path: /model, init: random}");
  request.set_yaml(yaml);
  EXPECT_TRUE(Call(Submit, request).ok());
}

TEST_F(OperationsTest, SubmitOfAModelThatIsNotThereIsRefusedBeforeItQueues) {
  ASSERT_TRUE(sim_.files().RemoveAll("/model/model.safetensors").ok());
  absl::Status status = Call(Submit, SubmitOf("a")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("no *.safetensors and no pytorch_model.bin in /model"),
            absl::string_view::npos);
  ASSERT_TRUE(sim_.files().RemoveAll("/model").ok());
  status = Call(Submit, SubmitOf("a")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("/model/config.json"), absl::string_view::npos);
  EXPECT_TRUE(sim_.store().Jobs()->empty());
}

TEST_F(OperationsTest, SubmitIntoTheOutputOfAJobThatHasNotEndedIsRefused) {
  const std::string id = Call(Submit, SubmitOf("a", "key"))->id();
  const absl::Status status = Call(Submit, SubmitOf("a")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("/out/a belongs to job " + id), absl::string_view::npos);
  EXPECT_NE(status.message().find("cox cancel " + id), absl::string_view::npos);
  EXPECT_EQ(Call(Submit, SubmitOf("a", "key"))->id(), id);
  EXPECT_EQ(sim_.store().Jobs()->size(), 1u);
  ASSERT_TRUE(Call(Cancel, Named<v1::CancelRequest>(id)).ok());
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_CANCELLED));
  const absl::Status ended = Call(Resume, Named<v1::ResumeRequest>(id)).status();
  EXPECT_EQ(ended.message(), "job " + id + " is CANCELLED: it has ended; submit it again");
  EXPECT_TRUE(Call(Submit, SubmitOf("a")).ok());
}

TEST_F(OperationsTest, SubmitIntoTheSameDirectoryByAnotherNameIsRefused) {
  ASSERT_TRUE(sim_.files().MakeDirs("/out/a").ok());
  sim_.files().Link("/alias", "/out");
  const std::string id = Call(Submit, SubmitOf("a"))->id();
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_RUNNING));
  v1::SubmitRequest other = SubmitOf("b");
  other.set_yaml(sim::JobYaml({.name = "b", .output_dir = "/alias/a"}));
  const absl::Status status = Call(Submit, other).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_NE(status.message().find("belongs to job " + id), absl::string_view::npos) << status;
  EXPECT_EQ(sim_.store().Jobs()->size(), 1u);
}

TEST_F(OperationsTest, SubmitIntoADirectoryOfAnotherControllerIsRefused) {
  driver::OutputClaim theirs(
      &sim_.files(), "/out/a",
      {.store = "0123456789abcdef", .term = 9, .job = "theirs", .host = "elsewhere"});
  ASSERT_TRUE(theirs.Take().ok());
  const absl::Status status = Call(Submit, SubmitOf("a")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_NE(status.message().find("job theirs"), absl::string_view::npos) << status;
  EXPECT_TRUE(sim_.store().Jobs()->empty());
  theirs.Release();
  EXPECT_TRUE(Call(Submit, SubmitOf("a")).ok());
}

// Validate, Plan and Submit judge alike what the output would write over.
TEST_F(OperationsTest, AnOutputOverTheBaseModelIsRefusedEverywhere) {
  sim_.files().Link("/alias", "/model");
  for (const char* output : {"/model", "/alias", "/model/out"}) {
    const std::string yaml = sim::JobYaml({.name = "a", .output_dir = output});
    v1::SubmitRequest submit = SubmitOf("a");
    submit.set_yaml(yaml);
    const absl::Status refused = Call(Submit, submit).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << output << ": " << refused;
    v1::PlanRequest plan;
    plan.set_yaml(yaml);
    EXPECT_EQ(CallPlan(plan).status(), refused);
    v1::ValidateRequest validate;
    validate.set_yaml(yaml);
    const auto found = *Call(Validate, validate);
    ASSERT_EQ(found.errors_size(), 1) << output;
    EXPECT_EQ(found.errors(0).message(), refused.message());
    EXPECT_EQ(found.errors(0).path(), "spec.checkpoint.output_dir");
    EXPECT_GT(found.errors(0).line(), 0);
  }
  EXPECT_TRUE(sim_.store().Jobs()->empty());
}

TEST_F(OperationsTest, ValidateListsErrorsAndStoresNothing) {
  v1::ValidateRequest request;
  request.set_yaml("kind: Wrong\n");
  EXPECT_FALSE(Call(Validate, request)->errors().empty());
  request.set_yaml(sim::JobYaml({}));
  EXPECT_TRUE(Call(Validate, request)->errors().empty());
  EXPECT_TRUE(sim_.store().Jobs()->empty());
}

TEST_F(OperationsTest, PlanRunsOffTheLoopAndRefusesABadFile) {
  v1::PlanRequest request;
  request.set_yaml(sim::JobYaml({.name = "x"}));
  EXPECT_EQ(CallPlan(request)->text(), "plan of x");
  request.set_yaml("[]");
  EXPECT_EQ(CallPlan(request).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(OperationsTest, GetFindsByIdPrefixAndName) {
  const std::string a = Call(Submit, SubmitOf("same"))->id();
  v1::SubmitRequest elsewhere = SubmitOf("same");
  elsewhere.set_yaml(sim::JobYaml({.name = "same", .output_dir = "/out/elsewhere"}));
  const std::string b = Call(Submit, elsewhere)->id();
  EXPECT_EQ(Call(Get, Named<v1::GetRequest>(a))->id(), a);
  const absl::Status both = Call(Get, Named<v1::GetRequest>("same")).status();
  EXPECT_EQ(both.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(both.message().find(a), absl::string_view::npos) << both;
  EXPECT_NE(both.message().find(b), absl::string_view::npos) << both;
  ASSERT_TRUE(Call(Cancel, Named<v1::CancelRequest>(b)).ok());
  ASSERT_TRUE(sim_.RunUntilState(b, v1::JOB_STATE_CANCELLED));
  EXPECT_EQ(Call(Get, Named<v1::GetRequest>("same"))->id(), a);  // older, but has not ended
  ASSERT_TRUE(Call(Cancel, Named<v1::CancelRequest>(a)).ok());
  ASSERT_TRUE(sim_.RunUntilState(a, v1::JOB_STATE_CANCELLED));
  EXPECT_EQ(Call(Get, Named<v1::GetRequest>("same"))->id(), b);  // the newest of the ended
  EXPECT_EQ(Call(Get, Named<v1::GetRequest>(a.substr(0, a.size() - 1)))->id(), a);
  EXPECT_EQ(Call(Get, Named<v1::GetRequest>("sam")).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Call(Get, Named<v1::GetRequest>("none")).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(OperationsTest, PauseResumeAndCancelAnswerTheJobOrSayWhyNot) {
  const std::string id = Call(Submit, SubmitOf("a"))->id();
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_RUNNING));
  EXPECT_EQ(Call(Pause, Named<v1::PauseRequest>(id))->state(), v1::JOB_STATE_DRAINING);
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_PAUSED));
  EXPECT_TRUE(Call(Resume, Named<v1::ResumeRequest>(id)).ok());
  EXPECT_EQ(Call(Resume, Named<v1::ResumeRequest>(id)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Call(Cancel, Named<v1::CancelRequest>(id)).ok());
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_CANCELLED));
  const absl::Status again = Call(Cancel, Named<v1::CancelRequest>(id)).status();
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(again.message().find("CANCELLED"), absl::string_view::npos);
}

// What the reply says is what the store holds. Invariant api-6.
TEST_F(OperationsTest, WhatTheStoreDidNotTakeIsAnsweredUnavailableAndDidNotHappen) {
  const std::string running = Call(Submit, SubmitOf("a"))->id();
  v1::SubmitRequest waiting = SubmitOf("b");
  waiting.set_start_paused(true);
  const std::string paused = Call(Submit, waiting)->id();
  const std::string ended = Call(Submit, SubmitOf("c"))->id();
  ASSERT_TRUE(Call(Cancel, Named<v1::CancelRequest>(ended)).ok());
  ASSERT_TRUE(sim_.RunUntilState(ended, v1::JOB_STATE_CANCELLED));
  ASSERT_TRUE(sim_.RunUntilState(running, v1::JOB_STATE_RUNNING));
  ASSERT_TRUE(sim_.deps().journal->Flush().ok());

  const auto refused = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_NE(status.message().find("disk full"), absl::string_view::npos) << status;
  };
  sim_.store().set_write_error(absl::ResourceExhaustedError("disk full"));
  refused(Call(Pause, Named<v1::PauseRequest>(running)).status());
  refused(Call(Cancel, Named<v1::CancelRequest>(running)).status());
  v1::ResumeRequest steps = Named<v1::ResumeRequest>(paused);
  steps.set_steps(2);
  refused(Call(Resume, steps).status());
  refused(Call(Cancel, Named<v1::CancelRequest>(paused)).status());
  refused(Call(Delete, Named<v1::DeleteRequest>(ended)).status());
  refused(Call(Submit, SubmitOf("d", "key")).status());
  EXPECT_EQ(Call(Get, Named<v1::GetRequest>(running))->state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(Call(Get, Named<v1::GetRequest>(paused))->state(), v1::JOB_STATE_PAUSED);
  EXPECT_TRUE(Call(Get, Named<v1::GetRequest>(ended)).ok());

  sim_.store().set_write_error(absl::OkStatus());
  sim_.RunFor(3000);  // nothing of it comes later
  const std::vector<store::JobRow> rows = *sim_.store().Jobs();
  for (const store::JobRow& row : rows) {
    EXPECT_NE(row.job.id() == running ? row.job.state() : v1::JOB_STATE_RUNNING,
              v1::JOB_STATE_DRAINING);
    if (row.job.id() == paused) {
      EXPECT_EQ(row.job.state(), v1::JOB_STATE_PAUSED);
      EXPECT_EQ(row.stop_at_step, 0);
    }
  }
  EXPECT_EQ(rows.size(), 3u);
  for (const v1::JobEvent& event : sim_.Events(running)) {
    EXPECT_EQ(event.message().find("requested"), std::string::npos) << event.message();
  }
  EXPECT_TRUE(Call(Delete, Named<v1::DeleteRequest>(ended)).ok());
  EXPECT_EQ(Call(Pause, Named<v1::PauseRequest>(running))->state(), v1::JOB_STATE_DRAINING);
  ASSERT_TRUE(sim_.RunUntilState(running, v1::JOB_STATE_PAUSED));
  EXPECT_TRUE(Call(Cancel, Named<v1::CancelRequest>(paused)).ok());
}

// The state that forbids it is named whether the store takes writes or not.
TEST_F(OperationsTest, AWrongStateIsNamedEvenWithoutAStore) {
  const std::string id = Call(Submit, SubmitOf("a"))->id();
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_RUNNING));
  sim_.store().set_write_error(absl::ResourceExhaustedError("disk full"));
  EXPECT_EQ(Call(Resume, Named<v1::ResumeRequest>(id)).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// Invariant api-2.
TEST_F(OperationsTest, WatchResumesFromAnyEventWithoutGapOrDuplicate) {
  const std::string id = Call(Submit, SubmitOf("a"))->id();
  v1::WatchRequest request = Named<v1::WatchRequest>(id);
  request.set_follow(true);
  auto live = Open(Watch, request);
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  sim_.RunFor(1000);
  ASSERT_TRUE(live->status.has_value() && live->status->ok());
  const auto all = sim_.Events(id);
  ASSERT_EQ(live->received.size(), all.size());
  for (const v1::JobEvent& from : all) {
    request.set_after_event_id(from.id());
    auto rest = Open(Watch, request);
    ASSERT_TRUE(rest->status.has_value());
    const size_t index = static_cast<size_t>(&from - all.data());
    ASSERT_EQ(rest->received.size(), all.size() - index - 1);
    if (!rest->received.empty()) {
      EXPECT_EQ(rest->received[0].id(), all[index + 1].id());
    }
  }
}

TEST_F(OperationsTest, WatchWithoutFollowEndsAtOnce) {
  const std::string id = Call(Submit, SubmitOf("a"))->id();
  auto sink = Open(Watch, Named<v1::WatchRequest>(id));
  EXPECT_TRUE(sink->status.has_value());
  EXPECT_FALSE(sink->received.empty());
  EXPECT_EQ(Open(Watch, Named<v1::WatchRequest>("none"))->status->code(),
            absl::StatusCode::kNotFound);
}

TEST_F(OperationsTest, InspectAsksEveryRankAndSaysWhoDidNotAnswer) {
  const std::string id = Call(Submit, SubmitOf("a"))->id();
  ASSERT_TRUE(sim_.RunUntil([&] { return sim_.Job(id).progress().step() == 4; }, 60'000));
  auto sink = Open(Inspect, Named<v1::InspectRequest>(id));
  ASSERT_TRUE(sim_.RunUntil([&] { return sink->status.has_value(); }, 10'000));
  ASSERT_EQ(sink->received.size(), 1u);
  ASSERT_EQ(sink->received[0].ranks_size(), 2);
  EXPECT_EQ(sink->received[0].ranks(1).state(), "RUNNING");
  EXPECT_GE(sink->received[0].ranks(1).last_step(), 1);
  const v1::GangPace& pace = sink->received[0].pace();
  EXPECT_GE(pace.steps(), 1);
  EXPECT_EQ(pace.slowest_rank(), 1);
  EXPECT_DOUBLE_EQ(pace.slowest_seconds(), 0.011);
  EXPECT_DOUBLE_EQ(pace.peer_median_seconds(), 0.010);
  EXPECT_DOUBLE_EQ(sink->received[0].ranks(1).compute_seconds(), 0.011);
  sim_.workers().Partition(1, true);
  auto cut = Open(Inspect, Named<v1::InspectRequest>(id));
  ASSERT_TRUE(sim_.RunUntil([&] { return cut->status.has_value(); }, 10'000));
  EXPECT_FALSE(cut->received[0].ranks(1).error().empty());
  EXPECT_TRUE(cut->received[0].ranks(0).error().empty());
}

TEST_F(OperationsTest, InspectRefreshesUntilTheClientLeaves) {
  const std::string id = Call(Submit, SubmitOf("a"))->id();
  v1::InspectRequest request = Named<v1::InspectRequest>(id);
  request.set_interval_ms(200);
  auto sink = Open(Inspect, request);
  sim_.RunFor(2000);
  EXPECT_GE(sink->received.size(), 5u);
  sink->cancelled = true;
  const size_t before = sink->received.size();
  sim_.RunFor(2000);
  EXPECT_EQ(sink->received.size(), before);
}

TEST_F(OperationsTest, ExplainSaysWhatAWaitingJobNeeds) {
  v1::SubmitRequest big = SubmitOf("big");
  big.set_yaml(sim::JobYaml({.name = "big", .workers = 3}));
  sim_.RunFor(2000);
  const std::string id = Call(Submit, big)->id();
  sim_.RunFor(1000);
  const std::string text = Call(Explain, Named<v1::ExplainRequest>(id))->text();
  EXPECT_NE(text.find("needs 3 workers of device cpu; 2 are registered: sim/0 is free"),
            std::string::npos)
      << text;
  const std::string running = Call(Submit, SubmitOf("small"))->id();
  ASSERT_TRUE(sim_.RunUntilState(running, v1::JOB_STATE_RUNNING));
  const std::string later = Call(Explain, Named<v1::ExplainRequest>(id))->text();
  EXPECT_NE(later.find("works for job " + running), std::string::npos) << later;
}

TEST_F(OperationsTest, AutoResourcesAreChosenAtSubmitByWorkersThatHaveBeenThere) {
  sim_.RunFor(10'000);
  v1::SubmitRequest request = SubmitOf("a");
  request.set_yaml(sim::JobYaml({.name = "a", .resources = "device: auto, workers: auto"}));
  const v1::Job job = *Call(Submit, request);
  EXPECT_EQ(job.device(), "cpu");
  EXPECT_EQ(job.workers(), 2);
  EXPECT_EQ(job.resources_reason(), "auto: no GPU worker is registered, 2 workers");
}

TEST_F(OperationsTest, ExplainSaysWhatAutoResourcesWaitFor) {
  v1::SubmitRequest request = SubmitOf("a");
  request.set_yaml(sim::JobYaml({.name = "a", .resources = "workers: 2"}));
  const v1::Job job = *Call(Submit, request);
  EXPECT_EQ(job.device(), "auto");
  sim_.RunFor(100);
  const auto why = [&](const std::string& id) {
    return Call(Explain, Named<v1::ExplainRequest>(id))->text();
  };
  EXPECT_NE(why(job.id()).find("it has its data and waits until no worker has registered for 5 s"),
            std::string::npos)
      << why(job.id());
  request = SubmitOf("b");
  request.set_yaml(sim::JobYaml({.name = "b", .resources = "device: cuda, workers: auto"}));
  const std::string waiting = Call(Submit, request)->id();
  sim_.RunFor(10'000);
  EXPECT_NE(sim_.Job(job.id()).device(), "auto");
  EXPECT_NE(why(waiting).find("waits for a first worker of device cuda: its resources.workers is "
                              "auto, as many as live; none is registered"),
            std::string::npos)
      << why(waiting);
}

TEST_F(OperationsTest, PlanChoosesAutoResourcesAsSubmitDoes) {
  config::JobSpec planned;
  context_.plan = [&](const config::JobSpec& spec, const driver::WorkerFacts&,
                      const std::function<bool()>&) -> absl::StatusOr<v1::PlanResponse> {
    planned = spec;
    return v1::PlanResponse();
  };
  v1::PlanRequest request;
  request.set_yaml(sim::JobYaml({.resources = "workers: auto"}));
  EXPECT_EQ(CallPlan(request)->text(),
            "device: cpu, workers: 2 (auto: no GPU worker is registered, 2 workers)\n");
  EXPECT_EQ(planned.device, config::Device::kCpu);
  EXPECT_EQ(planned.workers, 2);
  request.set_yaml(sim::JobYaml({.resources = "device: cuda, workers: auto"}));
  EXPECT_EQ(CallPlan(request)->text(),
            "device: cuda, workers: 1 (auto: assumed, because no worker has registered yet)\n");
  EXPECT_EQ(planned.device, config::Device::kCuda);
}

TEST_F(OperationsTest, ExplainHasASentenceForEveryTurn) {
  const std::string id = Call(Submit, SubmitOf("a"))->id();
  std::set<std::string> texts;
  sim_.RunUntil(
      [&] {
        texts.insert(Call(Explain, Named<v1::ExplainRequest>(id))->text().substr(0, 40));
        return sim_.Job(id).state() == v1::JOB_STATE_SUCCEEDED;
      },
      60'000);
  EXPECT_GE(texts.size(), 3u);
  for (const std::string& text : texts) EXPECT_EQ(text.find("unknown"), std::string::npos) << text;
}

// Invariant api-3.
TEST_F(OperationsTest, ArtifactsExistAfterSuccessAndStayInTheirDirectory) {
  const std::string id = Call(Submit, SubmitOf("a"))->id();
  EXPECT_EQ(Call(ListArtifacts, Named<v1::ListArtifactsRequest>(id)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  const auto listed = *Call(ListArtifacts, Named<v1::ListArtifactsRequest>(id));
  EXPECT_EQ(listed.directory(), "/out/a/adapter");
  ASSERT_EQ(listed.artifacts_size(), 2);
  EXPECT_EQ(listed.artifacts(0).name(), "coxswain_manifest.json");
  EXPECT_EQ(listed.artifacts(1).name(), "model");
  ASSERT_TRUE(sim_.files().WriteDurably("/out/a/adapter/\xff.bin", "foreign").ok());
  EXPECT_EQ(Call(ListArtifacts, Named<v1::ListArtifactsRequest>(id))->artifacts_size(), 2);
  for (const char* name : {"../checkpoint-12/manifest.json", "/etc/passwd", "."}) {
    v1::FetchRequest outside = Named<v1::FetchRequest>(id);
    outside.set_name(name);
    auto sink = Open(Fetch, outside);
    ASSERT_TRUE(sim_.RunUntil([&] { return sink->status.has_value(); }, 1000));
    EXPECT_EQ(sink->status->code(), absl::StatusCode::kNotFound) << name;
  }
}

TEST_F(OperationsTest, TheMergedModelIsAnArtifactToo) {
  v1::SubmitRequest submit = SubmitOf("a");
  submit.set_yaml(submit.yaml() + "  export: {merge: true}\n");
  const std::string id = Call(Submit, submit)->id();
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim_.Job(id).artifact_dir(), "/out/a/adapter");
  EXPECT_EQ(sim_.Job(id).merged_dir(), "/out/a/model");
  const auto listed = *Call(ListArtifacts, Named<v1::ListArtifactsRequest>(id));
  ASSERT_EQ(listed.artifacts_size(), 4);
  EXPECT_EQ(listed.artifacts(1).name(), "model");
  EXPECT_EQ(listed.artifacts(2).name(), "model/coxswain_manifest.json");
  EXPECT_EQ(listed.artifacts(3).name(), "model/merged");
  const std::string content = *sim_.files().Read("/out/a/model/merged");
  EXPECT_EQ(listed.artifacts(3).bytes(), static_cast<int64_t>(content.size()));
  auto [received, status] = FetchAll(id, "model/merged");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(received, content);
}

TEST_F(OperationsTest, AFileThatWasChangedAfterTheExportIsNotFetchedForTheJobs) {
  v1::SubmitRequest submit = SubmitOf("a");
  submit.set_yaml(submit.yaml() + "  export: {merge: true}\n");
  const std::string id = Call(Submit, submit)->id();
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  const std::string path = "/out/a/model/merged";
  std::string content = *sim_.files().Read(path);
  content.back() ^= 1;
  ASSERT_TRUE(sim_.files().WriteDurably(path, content).ok());
  const auto [received, status] = FetchAll(id, "model/merged");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find(path + ": block 1 of 2"), absl::string_view::npos) << status;
  content.pop_back();
  ASSERT_TRUE(sim_.files().WriteDurably(path, content).ok());
  const absl::Status listed = Call(ListArtifacts, Named<v1::ListArtifactsRequest>(id)).status();
  EXPECT_EQ(listed.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(listed.message().find(path), absl::string_view::npos) << listed;
}

// Invariant api-8: what another job put in the place of a job's artifacts is not given for them.
TEST_F(OperationsTest, AUserIsNotToldTheIdsOfJobsOfOthers) {
  const std::string id = Call(Submit, SubmitOf("a"))->id();  // an operator's
  const access::Principal bob{.role = access::Role::kUser, .name = "bob"};
  v1::ExplainResponse response;
  response.set_text("vm/0 works for job " + id + ", not for a-1.");
  HideJobsOf(context_, bob, &response);
  EXPECT_EQ(response.text(), "vm/0 works for job (of another user), not for a-1.");
  const std::string text = "in /out/" + id + "/adapter";
  EXPECT_EQ(HideJobs(context_, bob, text), "in /out/(of another user)/adapter");
  EXPECT_EQ(HideJobs(context_, {.role = access::Role::kOperator}, text), text);
}

TEST_F(OperationsTest, ArtifactsThatAnotherJobReplacedAreNotTheJobs) {
  const std::string first = Call(Submit, SubmitOf("a"))->id();
  ASSERT_TRUE(sim_.RunUntilState(first, v1::JOB_STATE_SUCCEEDED));
  const std::string second = Call(Submit, SubmitOf("a"))->id();
  ASSERT_TRUE(sim_.RunUntilState(second, v1::JOB_STATE_SUCCEEDED));
  const std::string told = sim_.Events(second, "Exported").at(0).message();
  EXPECT_NE(told.find("replacing /out/a/adapter of job " + first), std::string::npos) << told;
  const absl::Status listed = Call(ListArtifacts, Named<v1::ListArtifactsRequest>(first)).status();
  for (const absl::Status& status : {listed, FetchAll(first, "model").second}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(status.message().find("job " + second + " replaced the artifacts of job " + first),
              absl::string_view::npos)
        << status;
  }
  EXPECT_TRUE(FetchAll(second, "model").second.ok());
  ASSERT_TRUE(sim_.files().RemoveAll("/out/a/adapter/coxswain_manifest.json").ok());
  const absl::Status unsealed = FetchAll(second, "model").second;
  EXPECT_NE(unsealed.message().find("is not what job " + second + " exported"),
            absl::string_view::npos)
      << unsealed;
}

// Invariant driver-12.
TEST_F(OperationsTest, WhatNoJobWroteRefusesTheJobWithItsPath) {
  ASSERT_TRUE(sim_.files().MakeDirs("/out/a/adapter").ok());
  ASSERT_TRUE(sim_.files().WriteDurably("/out/a/adapter/weights.bin", "mine").ok());
  const absl::Status refused = Call(Submit, SubmitOf("a")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("/out/a/adapter/weights.bin"), absl::string_view::npos);
  v1::ValidateRequest validate;
  validate.set_yaml(SubmitOf("a").yaml());
  validate.set_yaml_path("/jobs/job.yaml");
  const auto checked = Call(Validate, validate);
  ASSERT_EQ(checked->errors_size(), 1);
  EXPECT_EQ(checked->errors(0).path(), "spec.checkpoint.output_dir");
  EXPECT_EQ(*sim_.files().Read("/out/a/adapter/weights.bin"), "mine");
  ASSERT_TRUE(sim_.files().RemoveAll("/out/a/adapter").ok());
  EXPECT_TRUE(Call(Submit, SubmitOf("a")).ok());
}

TEST_F(OperationsTest, LogsRelayTheLinesOfTheRanks) {
  const std::string id = Call(Submit, SubmitOf("a"))->id();
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_RUNNING));
  v1::LogsRequest request = Named<v1::LogsRequest>(id);
  request.set_rank(1);
  request.set_tail(10);
  auto sink = Open(Logs, request);
  ASSERT_TRUE(sim_.RunUntil([&] { return sink->status.has_value(); }, 10'000));
  ASSERT_EQ(sink->received.size(), 1u);
  EXPECT_EQ(sink->received[0].rank(), 1);
  request.set_rank(7);
  EXPECT_EQ(Open(Logs, request)->status->code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(OperationsTest, DumpCollectsTheJobAndItsRanks) {
  const std::string id = Call(Submit, SubmitOf("a"))->id();
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_RUNNING));
  const auto dump = nlohmann::json::parse(Call(Dump, Named<v1::DumpRequest>(id))->json());
  EXPECT_EQ(dump.at("ranks").size(), 2u);
  EXPECT_EQ(dump.at("epochs").size(), 1u);
  EXPECT_FALSE(dump.at("events").empty());
  EXPECT_FALSE(dump.contains("last_failure"));
  EXPECT_TRUE(sim_.files().Exists(dump.at("file")));
  const std::vector<v1::JobEvent> kept = sim_.Events(id, "IncidentKept");
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].incident_kept().path(), dump.at("file"));
  EXPECT_EQ(kept[0].incident_kept().reason(), "asked");
  EXPECT_EQ(sim_.Job(id).epoch(), 1u);
}

TEST_F(OperationsTest, DumpThatStopsEndsTheGangAfterItsRanksHaveTold) {
  const std::string id = Call(Submit, SubmitOf("a"))->id();
  v1::DumpRequest request = Named<v1::DumpRequest>(id);
  request.set_stop(true);
  const absl::Status early = Call(Dump, request).status();
  EXPECT_EQ(early.code(), absl::StatusCode::kFailedPrecondition) << early;
  EXPECT_NE(early.message().find("no gang"), absl::string_view::npos) << early;
  ASSERT_TRUE(sim_.RunUntil([&] { return sim_.Job(id).progress().step() >= 4; }, 60'000));
  const auto dump = nlohmann::json::parse(Call(Dump, request)->json());
  EXPECT_EQ(dump.at("ranks")[1].at("dump").at("epoch"), 1);
  EXPECT_EQ(sim_.Job(id).state(), v1::JOB_STATE_RECOVERING);
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim_.Job(id).epoch(), 2u);
  EXPECT_EQ(sim_.Job(id).restarts(), 0);
}

TEST_F(OperationsTest, ExplainTellsWhatTheNewestDumpShows) {
  const std::string id = Call(Submit, SubmitOf("a"))->id();
  ASSERT_TRUE(sim_.RunUntil([&] { return sim_.Job(id).progress().step() >= 4; }, 60'000));
  const auto explain = [&] { return Call(Explain, Named<v1::ExplainRequest>(id))->text(); };
  EXPECT_EQ(explain().find("Dump of gang"), std::string::npos);
  sim_.workers().Stop(1);
  ASSERT_TRUE(sim_.RunUntil([&] { return CountOf(sim_, id, "IncidentKept") == 1; }, 60'000));
  const std::string text = explain();
  EXPECT_EQ(text.find("Job " + id + " is "), 0u) << text;
  for (const char* part :
       {"Dump of gang 1, which failed: rank 1",
        "Odd: rank 1. Found: the process of rank 1 is stopped", "To do: send SIGCONT",
        "rank 0 stands at\n    fake\n        AllReduce\n",
        "rank 1 stands at\n    fake\n        Multiply\n", "kept in /state/incidents/"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
  const std::string path = sim_.Events(id, "IncidentKept")[0].incident_kept().path();
  sim_.CrashController();
  sim_.StartController();
  Wire();
  EXPECT_NE(explain().find("Odd: rank 1."), std::string::npos);  // of a controller before
  ASSERT_TRUE(sim_.files().WriteDurably(path, "[\"other\"]").ok());
  EXPECT_NE(explain().find(path + " is no dump of this release"), std::string::npos) << explain();
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  ASSERT_TRUE(Call(Delete, Named<v1::DeleteRequest>(id)).ok());
  EXPECT_TRUE(sim_.RunUntil([&] { return !sim_.files().Exists(path); }, 1000));
}

TEST_F(OperationsTest, DumpShowsWhatTheRanksOfAFailedGangWereDoing) {
  const std::string id = Call(Submit, SubmitOf("a"))->id();
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_RUNNING));
  sim_.workers().Hang(1);
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_RECOVERING));
  const auto dump = nlohmann::json::parse(Call(Dump, Named<v1::DumpRequest>(id))->json());
  const auto& failure = dump.at("last_failure");
  EXPECT_EQ(failure.at("epoch"), 1);
  EXPECT_EQ(failure.at("ranks").size(), 2u);
  EXPECT_EQ(failure.at("ranks").at(0).at("dump").at("epoch"), 1);
  EXPECT_NE(failure.at("error").get<std::string>().find("hang"), std::string::npos);
  EXPECT_EQ(failure.at("reason"), "failure");
}

TEST_F(OperationsTest, DeleteTakesTerminalJobsOnly) {
  const std::string id = Call(Submit, SubmitOf("a"))->id();
  EXPECT_EQ(Call(Delete, Named<v1::DeleteRequest>(id)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_TRUE(Call(Delete, Named<v1::DeleteRequest>(id)).ok());
  EXPECT_EQ(Call(Get, Named<v1::GetRequest>(id)).status().code(), absl::StatusCode::kNotFound);
  sim_.RunFor(1000);
  EXPECT_TRUE(sim_.store().Jobs()->empty());
}

TEST_F(OperationsTest, ListWorkersShowsStateJobAndRank) {
  const std::string id = Call(Submit, SubmitOf("a"))->id();
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_RUNNING));
  const auto workers = *Call(ListWorkers, v1::ListWorkersRequest());
  ASSERT_EQ(workers.workers_size(), 2);
  EXPECT_EQ(workers.workers(1).id(), "sim/1");
  EXPECT_EQ(workers.workers(1).state(), "RUNNING");
  EXPECT_EQ(workers.workers(1).job(), id);
  EXPECT_EQ(workers.workers(1).rank(), 1);
  EXPECT_EQ(Call(Version, v1::VersionRequest())->version(), "1.2.3");
}

TEST_F(OperationsTest, CordonedWorkersAreListedWithTheReasonUntilTheyArePutBack) {
  sim_.RunFor(2000);
  v1::CordonRequest cordon;
  cordon.set_target("sim/1");
  cordon.set_reason("fan");
  const auto cordoned = Call(Cordon, cordon);
  ASSERT_TRUE(cordoned.ok()) << cordoned.status().message();
  ASSERT_EQ(cordoned->workers_size(), 1);
  EXPECT_EQ(cordoned->workers(0), "sim/1");
  auto workers = *Call(ListWorkers, v1::ListWorkersRequest());
  EXPECT_EQ(workers.workers(0).cordoned(), "");
  EXPECT_EQ(workers.workers(1).cordoned(), "by a user: fan");
  ASSERT_EQ(workers.cordons_size(), 1);
  EXPECT_EQ(workers.cordons(0).target(), "sim/1");
  EXPECT_FALSE(workers.cordons(0).automatic());
  v1::UncordonRequest uncordon;
  uncordon.set_target("sim");
  EXPECT_EQ(Call(Uncordon, uncordon)->workers_size(), 2);
  workers = *Call(ListWorkers, v1::ListWorkersRequest());
  EXPECT_EQ(workers.workers(1).cordoned(), "");
  EXPECT_EQ(workers.cordons_size(), 0);
  cordon.set_target("");
  EXPECT_EQ(Call(Cordon, cordon).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(OperationsTest, ACancelWithACheckpointSavesTheLastStep) {
  const std::string id = Call(Submit, SubmitOf("a"))->id();
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_RUNNING));
  auto cancel = Named<v1::CancelRequest>(id);
  cancel.set_checkpoint(true);
  EXPECT_EQ(Call(Cancel, cancel)->state(), v1::JOB_STATE_DRAINING);
  ASSERT_TRUE(sim_.RunUntilState(id, v1::JOB_STATE_CANCELLED));
  const v1::Job& job = sim_.Job(id);
  const int64_t saved = job.checkpoints().empty() ? 0 : job.checkpoints().rbegin()->step();
  EXPECT_EQ(saved, job.progress().step());
}

TEST_F(OperationsTest, AControllerThatStopsTakesNoJob) {
  const std::string id = Call(Submit, SubmitOf("known", "key"))->id();
  sim_.jobs().Stop([] {});
  const absl::Status refused = Call(Submit, SubmitOf("late")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(refused.message().find("is stopping"), absl::string_view::npos) << refused.message();
  EXPECT_EQ(Call(Submit, SubmitOf("known", "key"))->id(), id);
}

// Invariant api-4.
TEST(CheckBuildTest, NamesBothValuesOfWhatDiffers) {
  v1::BuildInfo ours;
  ours.set_version("1.0");
  ours.set_commit("abc");
  ours.set_protocol(1);
  EXPECT_TRUE(CheckBuild(ours, ours).ok());
  v1::BuildInfo theirs = ours;
  theirs.set_protocol(2);
  EXPECT_NE(CheckBuild(theirs, ours).message().find("protocol 2, the controller 1"),
            absl::string_view::npos);
  theirs = ours;
  theirs.set_version("2.0");
  EXPECT_NE(CheckBuild(theirs, ours).message().find("version 2.0, the controller 1.0"),
            absl::string_view::npos);
  theirs = ours;
  theirs.set_commit("def");
  EXPECT_EQ(CheckBuild(theirs, ours).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace coxswain::api
