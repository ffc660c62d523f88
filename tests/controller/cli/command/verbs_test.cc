// Every verb against a Jobs service in memory.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/access/local_secrets.h"
#include "common/access/secret_file.h"
#include "common/files/read_file.h"
#include "tests/controller/cli/run_cox.h"
#include "tests/controller/cli/temp_dir.h"

namespace coxswain::cli {
namespace {

using Json = nlohmann::json;

std::string WriteJob(const std::string& extra = "") {
  const std::string path = TempDir() + "/job.yaml";
  std::ofstream(path)
      << "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: tiny}\nspec:\n"
         "  base_model: ./model\n  datasets: [{path: ./train.jsonl}]\n"
      << extra;
  return path;
}

// Invariant cli-2.
TEST(UsageTest, MistakesAreCodeTwo) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{},
                                               {"bogus"},
                                               {"get", "--bogus"},
                                               {"describe"},
                                               {"get", "-o", "xml"},
                                               {"step", "a", "-n", "0"},
                                               {"completion", "tcsh"},
                                               {"data"},
                                               {"download", "a"}}) {
    const Ran ran = RunInProcess(args);
    EXPECT_EQ(ran.code, 2) << testing::PrintToString(args);
    EXPECT_EQ(ran.out, "");
    EXPECT_NE(ran.err, "");
  }
}

// Invariant cli-2, of which it is the exception.
TEST(DataCheckTest, ExitCodesTellFindingsFromErrors) {
  const std::string model = "deploy/quickstart/model", file = TempDir() + "/check.jsonl";
  std::ofstream(file) << "{\"text\": \"a\"}\n";
  EXPECT_EQ(RunInProcess({"data", "check", file, "--model", model}).code, 0);
  std::ofstream(file) << "{\"text\": \"a\", \"id\": 1}\n";
  const Ran found = RunInProcess({"data", "check", file, "--model", model, "-o", "json"});
  EXPECT_EQ(found.code, 1) << found.err;
  EXPECT_EQ(nlohmann::json::parse(found.out)["findings"][0]["places"][0], file + ":1");
  EXPECT_EQ(RunInProcess({"data", "check", file + ".absent", "--model", model}).code, 2);
  EXPECT_EQ(RunInProcess({"data", "check", file}).code, 2);
}

// Formats of one method alone can be looked at without it.
TEST(DataCheckTest, CountsLabelsOfClassification) {
  const std::string model = "deploy/quickstart/model", file = TempDir() + "/labels.jsonl";
  std::ofstream(file) << "{\"text\": \"a\", \"label\": \"good\"}\n";
  const Ran ran = RunInProcess(
      {"data", "check", file, "--model", model, "--format", "classification", "-o", "json"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(nlohmann::json::parse(ran.out)["labels"], nlohmann::json({{"good", 1}}));
}

TEST(GenerateTest, AFolderThatIsNoModelAsksNoServer) {
  const std::string folder = TempDir() + "/generate";
  std::filesystem::create_directories(folder);
  const std::vector<std::string> args = {"generate", folder, "-p", "a", "--server", "127.0.0.1:1"};
  const Ran empty = RunInProcess(args);
  EXPECT_EQ(empty.code, 2);
  EXPECT_NE(empty.err.find(folder + " holds neither config.json"), std::string::npos) << empty.err;
  std::ofstream(folder + "/adapter_config.json") << "{}";
  const Ran adapter = RunInProcess(args);
  EXPECT_EQ(adapter.code, 2);
  EXPECT_NE(adapter.err.find("cox generate MODEL --adapter " + folder), std::string::npos)
      << adapter.err;
}

TEST(PlanTest, FindingsAreOfTheJsonAndTheirPlacesWhereAsked) {
  setenv("XDG_CACHE_HOME", TempDir().c_str(), 1);
  const std::string file = TempDir() + "/plan.jsonl", job = TempDir() + "/plan.yaml";
  std::ofstream(file) << "{\"text\": \"a\"}\n{\"text\": \"b\", \"id\": 1}\n";
  std::ofstream(job)
      << "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: tiny}\nspec:\n"
         "  base_model: "
      << std::filesystem::absolute("deploy/quickstart/model").string()
      << "\n  resources: {device: cpu}\n  datasets: [{path: ./plan.jsonl}]\n";
  const auto finding = [&](std::vector<std::string> args) {
    args.insert(args.begin(), {"plan", job, "-o", "json"});
    const Ran ran = RunInProcess(args);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.code == 0 ? Json::parse(ran.out)["data"]["findings"][0]["findings"][0] : Json();
  };
  EXPECT_EQ(finding({}).dump(), R"({"name":"id","records":1,"times":1,"what":"unread_field"})");
  EXPECT_EQ(finding({"-v"})["places"], Json({file + ":2"}));
}

TEST(PlanTest, SaysWhereThePlanDoesNotFitThisMachine) {
  setenv("XDG_CACHE_HOME", TempDir().c_str(), 1);
  const std::string file = TempDir() + "/large.jsonl", job = TempDir() + "/large.yaml";
  std::ofstream(file) << "{\"text\": \"a\"}\n";
  std::ofstream(job)
      << "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: large}\nspec:\n"
         "  base_model: "
      << std::filesystem::absolute("deploy/quickstart/model").string()
      << "\n  resources: {device: cpu}\n  datasets: [{path: ./large.jsonl}]\n"
         "  sequence_len: 2048\n  train: {micro_batch_size: 60000}\n";
  const Ran ran = RunInProcess({"plan", job});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("does not fit here: the worker needs "), std::string::npos) << ran.out;
  EXPECT_NE(RunInProcess({"plan", job, "--memory-gib", "1"}).code, 0);
}

// Without workers and without a GPU.
TEST(PlanTest, PlansForAGpuByName) {
  setenv("XDG_CACHE_HOME", TempDir().c_str(), 1);
  const std::string file = TempDir() + "/named.jsonl";
  std::ofstream(file) << "{\"text\": \"a\"}\n";
  const auto job = [](const std::string& device) {
    const std::string path = TempDir() + "/named.yaml";
    std::ofstream(path)
        << "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: named}\nspec:\n"
           "  base_model: "
        << std::filesystem::absolute("deploy/quickstart/model").string()
        << "\n  resources: {device: " << device
        << "}\n  datasets: [{path: ./named.jsonl}]\n  sequence_len: 64\n";
    return path;
  };
  const Ran h100 = RunInProcess({"plan", job("auto"), "--gpu", "h100 sxm"});
  EXPECT_EQ(h100.code, 0) << h100.err;
  EXPECT_NE(h100.err.find("device: cuda, workers: 1 (--gpu H100 SXM)"), std::string::npos);
  EXPECT_NE(h100.out.find("at the rates of one H100 SXM: "), std::string::npos) << h100.out;
  const Ran l40s = RunInProcess({"plan", job("cuda"), "--gpu", "L40S"});
  EXPECT_EQ(l40s.code, 0) << l40s.err;
  EXPECT_NE(l40s.out.find("not measured on this GPU (L40S)"), std::string::npos) << l40s.out;
  const Ran unknown = RunInProcess({"plan", job("auto"), "--gpu", "H300"});
  EXPECT_NE(unknown.code, 0);
  EXPECT_NE(unknown.err.find("\"B200\""), std::string::npos) << unknown.err;
  const Ran cpu = RunInProcess({"plan", job("cpu"), "--gpu", "H200"});
  EXPECT_NE(cpu.code, 0);
  EXPECT_NE(cpu.err.find("resources.device is cpu, --gpu is H200"), std::string::npos) << cpu.err;
}

// The memory of the GPU that is named, which --memory-gib overrides.
TEST(PlanTest, ANamedGpuHasItsMemory) {
  setenv("XDG_CACHE_HOME", TempDir().c_str(), 1);
  std::ofstream(TempDir() + "/wide.jsonl") << "{\"text\": \"a\"}\n";
  const std::string job = TempDir() + "/wide.yaml";
  std::ofstream(job) << "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: wide}\n"
                        "spec:\n  base_model: "
                     << std::filesystem::absolute("deploy/quickstart/model").string()
                     << "\n  datasets: [{path: ./wide.jsonl}]\n  sequence_len: 2048\n"
                        "  train: {micro_batch_size: 2000}\n";
  EXPECT_NE(RunInProcess({"plan", job, "--gpu", "RTX 4090"}).code, 0);
  EXPECT_EQ(RunInProcess({"plan", job, "--gpu", "RTX 4090", "--memory-gib", "9999"}).code, 0);
}

std::string WriteForeign(const std::string& extra) {
  const std::string path = TempDir() + "/theirs.yml";
  std::ofstream(path) << "base_model: ./model\nlearning_rate: 2e-4\n"
                         "datasets: [{path: ./a.jsonl, type: alpaca}]\n"
                      << extra;
  return path;
}

// Invariant cli-1.
TEST(ImportTest, JobIsDataAndReportIsNot) {
  const Ran ran = RunInProcess({"import", WriteForeign("micro_batch_size: 2\n")});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out.find("apiVersion: coxswain/v1"), 0u) << ran.out;
  EXPECT_NE(ran.err.find("theirs.yml:4: taken: micro_batch_size: 2"), std::string::npos);
  const std::string job = TempDir() + "/imported.yaml";
  std::ofstream(job) << ran.out;
  EXPECT_EQ(RunInProcess({"validate", job}).code, 0);
}

TEST(ImportTest, FileIsOverwrittenOnlyByForce) {
  const std::string file = WriteForeign(""), job = TempDir() + "/kept.yaml";
  std::ofstream(job) << "mine";
  const Ran kept = RunInProcess({"import", file, "-o", job});
  EXPECT_EQ(kept.code, 1);
  EXPECT_NE(kept.err.find("exists already; give another -o or --force"), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(job), 4u);
  const Ran forced = RunInProcess({"import", file, "-o", job, "--force"});
  EXPECT_EQ(forced.code, 0) << forced.err;
  EXPECT_EQ(forced.out, "");
  EXPECT_GT(std::filesystem::file_size(job), 4u);
}

TEST(ImportTest, WhatIsInTheWayIsCodeTwoAndWritesNothing) {
  const std::string job = TempDir() + "/refused.yaml";
  const Ran ran = RunInProcess({"import", WriteForeign("relora: true\n"), "-o", job});
  EXPECT_EQ(ran.code, 2);
  EXPECT_FALSE(std::filesystem::exists(job));
  EXPECT_NE(ran.err.find("in the way: relora (adapters that restart"), std::string::npos);
  EXPECT_EQ(RunInProcess({"import", WriteForeign(""), "--from", "trl"}).code, 2);
  EXPECT_EQ(RunInProcess({"import", WriteForeign(""), "--from", "axolotl"}).code, 0);
  EXPECT_EQ(RunInProcess({"import", WriteForeign("stage: sft\n")}).code, 2);
  EXPECT_EQ(RunInProcess({"import", TempDir() + "/absent.yml"}).code, 4);
}

// Invariant cli-1.
TEST(UsageTest, HelpIsData) {
  const Ran ran = RunInProcess({"--help"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_NE(ran.out.find("124 timeout"), std::string::npos);
  EXPECT_EQ(ran.err, "");
}

TEST(ServerTest, UnreachableIsCodeFive) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"get"}, {"describe", "a"}, {"watch", "a"}, {"logs", "a"}}) {
    std::vector<std::string> with_server = args;
    with_server.insert(with_server.end(), {"--server", "127.0.0.1:1"});
    const Ran ran = RunInProcess(with_server);
    EXPECT_EQ(ran.code, 5) << args[0];
    EXPECT_NE(ran.err.find("cannot reach the controller at 127.0.0.1:1"), std::string::npos)
        << ran.err;
    EXPECT_NE(ran.err.find("cox up"), std::string::npos);
  }
}

TEST(ServerTest, AddressesThatCannotBeUsed) {
  EXPECT_EQ(RunInProcess({"get", "--server", "nonsense"}).code, 2);
  const Ran remote = RunInProcess({"get", "--server", "192.0.2.1:7070"});
  EXPECT_EQ(remote.code, 1);
  EXPECT_NE(remote.err.find("--tls-ca"), std::string::npos) << remote.err;
}

TEST(ServerTest, UnknownJobIsCodeFour) {
  FakeJobs fake;
  for (const char* verb : {"describe", "watch", "events", "logs", "cancel", "pause", "resume",
                           "inspect", "step", "explain", "delete", "plot"}) {
    std::vector<std::string> words = {verb, "nobody"};
    if (words[0] == "plot") words.insert(words.end(), {"-o", "-"});
    const Ran ran = RunAt(fake, words);
    EXPECT_EQ(ran.code, 4) << verb << ran.err;
    EXPECT_NE(ran.err.find("no job \"nobody\""), std::string::npos) << verb;
    EXPECT_EQ(ran.out, "") << verb;
  }
}

TEST(SubmitTest, PrintsIdAndIsIdempotentByKey) {
  FakeJobs fake;
  const std::string job = WriteJob();
  EXPECT_EQ(RunAt(fake, {"submit", job, "--idempotency-key", "k"}).out,
            "job tiny-000001 submitted (QUEUED)\n");
  EXPECT_EQ(RunAt(fake, {"submit", "-f", job, "--idempotency-key", "k", "-o", "name"}).out,
            "tiny-000001\n");
  EXPECT_EQ(RunAt(fake, {"submit", job, "-o", "name"}).out, "tiny-000002\n");
  const Ran other = RunAt(fake, {"submit", job, "--set", "train.seed=1", "--idempotency-key", "k"});
  EXPECT_EQ(other.code, 1);
}

TEST(SubmitTest, OverridesReachTheController) {
  FakeJobs fake;
  const Ran ran = RunAt(fake, {"submit", WriteJob(), "--set", "train.max_steps=4", "--set",
                               "lora.r=8", "-o", "json", "--paused"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json job = Json::parse(ran.out);
  EXPECT_EQ(job["state"], "PAUSED");
  EXPECT_EQ(job["effective"]["spec"]["train"]["max_steps"], 4);
  EXPECT_EQ(job["effective"]["spec"]["lora"]["r"], 8);
  EXPECT_EQ(job["created"], "2026-01-02T03:00:53.678Z");
}

TEST(SubmitTest, InvalidJobIsCodeTwoWithEveryError) {
  FakeJobs fake;
  const std::string path = WriteJob("  adapter: lorra\n  bogus: 1\n");
  const Ran ran = RunAt(fake, {"submit", path});
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(
      ran.err.find(
          path +
          ":7: spec.adapter: expected one of none, lora, qlora, got \"lorra\"; did you mean lora?"),
      std::string::npos)
      << ran.err;
  EXPECT_NE(ran.err.find(path + ":8: spec.bogus: unknown key"), std::string::npos);
  const Ran set = RunAt(
      fake, {"submit", WriteJob(), "--set", "spec.precision.compute=int8", "--set", "train.sed=1"});
  EXPECT_EQ(set.code, 2);
  EXPECT_NE(set.err.find("\n  --set spec.precision.compute=int8: expected one of"),
            std::string::npos)
      << set.err;
  EXPECT_NE(set.err.find("\n  --set train.sed=1: unknown key; did you mean seed?"),
            std::string::npos)
      << set.err;
  EXPECT_EQ(RunAt(fake, {"submit", "/nowhere.yaml"}).code, 4);
  EXPECT_EQ(RunAt(fake, {"submit", WriteJob(), "--set", "novalue"}).code, 2);
}

TEST(SubmitTest, WaitReturnsTheJobsOutcome) {
  FakeJobs fake;
  const std::string id = fake.AddJob("old", v1::JOB_STATE_QUEUED);
  const Ran timeout = RunAt(fake, {"submit", WriteJob(), "--wait", "--timeout", "0.4"});
  EXPECT_EQ(timeout.code, 124) << timeout.err;
}

TEST(ValidateTest, NeedsNoController) {
  const std::string path = WriteJob();
  const Ran valid = RunInProcess({"validate", path});
  EXPECT_EQ(valid.code, 0);
  EXPECT_EQ(valid.out, path + ": schema valid; cox plan also checks model and data\n");
  WriteJob("  sequence_len: 0\n");
  const Ran invalid = RunInProcess({"validate", path});
  EXPECT_EQ(invalid.code, 2);
  EXPECT_EQ(invalid.err,
            path + ":7: spec.sequence_len: 0 is out of range; allowed: 2 <= x <= 1048576\n");
  const Json report = Json::parse(RunInProcess({"validate", path, "-o", "json"}).out);
  EXPECT_EQ(report["valid"], false);
  EXPECT_EQ(report["errors"][0]["line"], 7);
}

TEST(ValidateTest, AnOutputOverTheBaseModelIsAnErrorOfItsKey) {
  const std::string path = WriteJob();
  const std::string here = std::filesystem::path(path).parent_path().string();
  const std::string model = "base_model=" + here, output = "checkpoint.output_dir=" + here + "/out";
  const Ran ran = RunInProcess({"validate", path, "--set", model, "--set", output});
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.err.find("--set " + output + ": checkpoint.output_dir " + here +
                         "/out is or lies in base_model " + here),
            0u)
      << ran.err;
}

TEST(GetTest, Table) {
  FakeJobs fake;
  EXPECT_EQ(RunAt(fake, {"get"}).err, "no jobs\n");
  const std::string queued = fake.AddJob("first", v1::JOB_STATE_QUEUED);
  const std::string id = fake.AddJob("tiny", v1::JOB_STATE_PAUSED);
  fake.RunSteps(id, 2);
  fake.Edit(id, [](v1::Job* job) {
    job->set_state(v1::JOB_STATE_RUNNING);
    job->mutable_progress()->set_eta_seconds(75);
    (*job->mutable_labels())["team"] = "math";
  });
  EXPECT_EQ(
      RunAt(fake, {"get", "jobs"}).out,
      "NAME           STATE     METHOD   MODEL   WORKERS   PROGRESS   STEP   LOSS     ETA     "
      "RESTARTS   AGE\n"
      "tiny-000002    RUNNING   lora     tiny    2         50%        2/4    3.5000   1m15s   "
      "0          3m12s\n"
      "first-000001   QUEUED    lora     tiny    2         0%         0/4    -        -       "
      "0          3m12s\n");
  EXPECT_EQ(RunAt(fake, {"get", "-o", "name", "-l", "team=math"}).out, "tiny-000002\n");
  EXPECT_EQ(RunAt(fake, {"get", "fir", "-o", "name"}).out, "first-000001\n");
  EXPECT_EQ(Json::parse(RunAt(fake, {"get", "-o", "json"}).out)["jobs"].size(), 2u);
  EXPECT_EQ(Json::parse(RunAt(fake, {"get", "tiny", "-o", "json"}).out)["progress"]["step"], 2);
  EXPECT_NE(RunAt(fake, {"get", "-o", "wide"}).out.find("BASE-MODEL"), std::string::npos);
  EXPECT_NE(RunAt(fake, {"get", "-o", "yaml"}).out.find("jobs:\n- id: tiny-000002\n"),
            std::string::npos);
}

TEST(GetTest, WalksThePages) {
  FakeJobs fake;
  for (const char* name : {"a", "b", "c", "d", "e"}) fake.AddJob(name, v1::JOB_STATE_QUEUED);
  EXPECT_EQ(RunAt(fake, {"get", "-o", "name"}).out,
            "e-000005\nd-000004\nc-000003\nb-000002\na-000001\n");
  EXPECT_EQ(Json::parse(RunAt(fake, {"get", "-o", "json"}).out)["jobs"].size(), 5u);
}

TEST(DescribeTest, Text) {
  FakeJobs fake;
  const std::string id = fake.AddJob("tiny", v1::JOB_STATE_PAUSED);
  fake.RunSteps(id, 1);
  fake.Edit(id, [](v1::Job* job) {
    job->mutable_progress()->set_eta_seconds(75);
    job->mutable_planned_memory()->set_weights(40 << 20);
    job->mutable_planned_memory()->set_workspace(24 << 20);
    *job->mutable_measured_memory() = job->planned_memory();
    job->mutable_planned_memory()->set_peak(80 << 20);
    job->mutable_measured_memory()->set_peak(700 << 20);
    v1::CheckpointInfo* checkpoint = job->add_checkpoints();
    job->set_device("cuda");
    job->set_resources_reason("auto: 2 workers, NVIDIA H200");
    checkpoint->set_step(1);
    checkpoint->set_bytes(2048);
    checkpoint->set_directory("/out/step-1");
    checkpoint->set_committed_unix_ms(FakeJobs::kNow - 5000);
  });
  EXPECT_EQ(RunAt(fake, {"describe", "tiny"}).out,
            R"(Id:            tiny-000001
Name:          tiny
State:         PAUSED
Method:        lora
Base model:    /models/tiny
Device:        cuda (auto: 2 workers, NVIDIA H200)
Workers:       2 (priority 0, gang 0)
Restarts:      0 (0 since the last new checkpoint)
Created:       2026-01-02T03:00:53.678Z (3m12s ago)

Progress
  step 1/4 (25.0 %), pass 0
  loss 4.000000, grad norm 1.250000, learning rate 0.0001, skipped steps 0
  evaluation loss -
  0 tokens, - tokens/s

Memory per rank
              WEIGHTS    GRADIENTS   OPTIMIZER   ACTIVATIONS   WORKSPACE   TOTAL
  planned     40.0 MiB   0 B         0 B         0 B           24.0 MiB    64.0 MiB
  allocated   40.0 MiB   0 B         0 B         0 B           24.0 MiB    64.0 MiB
  planned with CUDA's runtime and NCCL: 80.0 MiB
  process resident (with libraries): 700.0 MiB

Checkpoints
  STEP   SIZE       EVAL-LOSS   AGE   DIRECTORY
  1      2.00 KiB   -           5s    /out/step-1

Events
  ID   AGE     TYPE           STATE     MESSAGE
  1    1m00s   StateChanged   PAUSED    PAUSED
  2    1m00s   StateChanged   RUNNING   RUNNING
  3    1m00s   StepDone       RUNNING   step 1
  4    1m00s   StateChanged   PAUSED    PAUSED

Next
  cox resume tiny-000001
  cox step tiny-000001 -n 1
)");
  EXPECT_EQ(RunAt(fake, {"describe", "tiny", "-o", "wide"}).out,
            RunAt(fake, {"describe", "tiny"}).out);
  fake.Edit(id, [](v1::Job* job) {
    v1::SampleAnswers* sample = job->add_samples();
    sample->set_prompt("Why?");
    sample->set_first_answer("No\nreason");
    sample->set_answer("Because");
    sample->set_step(4);
  });
  EXPECT_NE(RunAt(fake, {"describe", "tiny"})
                .out.find("\nAnswers\n    prompt\n      Why?\n    at step 0\n      No\n"
                          "      reason\n    at step 4\n      Because\n"),
            std::string::npos);
  EXPECT_EQ(RunAt(fake, {"describe", "tiny", "-o", "name"}).code, 2);
  EXPECT_EQ(Json::parse(RunAt(fake, {"describe", "tiny", "-o", "json"}).out)["events"].size(), 4u);
}

TEST(EventsTest, TableJsonAndFollow) {
  FakeJobs fake;
  const std::string id = fake.AddJob("tiny", v1::JOB_STATE_PAUSED);
  fake.RunSteps(id, 4);
  EXPECT_NE(
      RunAt(fake, {"events", id}).out.find("7    1m00s   StateChanged   SUCCEEDED   SUCCEEDED\n"),
      std::string::npos);
  const Json events = Json::parse(RunAt(fake, {"events", id, "-o", "json"}).out)["events"];
  EXPECT_EQ(events.size(), 7u);
  EXPECT_EQ(events[2]["data"]["ranks"][1]["bin_ids"][0], 1);
  std::istringstream lines(RunAt(fake, {"events", id, "-f", "-o", "json"}).out);
  int64_t last = 0;
  for (std::string line; std::getline(lines, line);) EXPECT_EQ(Json::parse(line)["id"], ++last);
  EXPECT_EQ(last, 7);
}

TEST(PlotTest, DrawsJobsIntoAFile) {
  FakeJobs fake;
  const std::string first = fake.AddJob("tiny", v1::JOB_STATE_PAUSED);
  fake.RunSteps(first, 4);
  const std::string second = fake.AddJob("other", v1::JOB_STATE_PAUSED);
  const std::string path = TempDir() + "/curve.svg";
  const Ran ran = RunAt(fake, {"plot", first, second, "-o", path});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "wrote " + path + "\n");
  const std::string svg = RunAt(fake, {"plot", first, second, "-o", "-"}).out;
  EXPECT_EQ(svg.find("<svg "), 0u);
  EXPECT_NE(svg.find(">" + first + "<"), std::string::npos);
  EXPECT_NE(svg.find(">" + second + "<"), std::string::npos);
  EXPECT_EQ(ReadFile(path).value_or(""), svg);
}

TEST(PlotTest, DrawsPngOrSaysWhatItNeeds) {
  FakeJobs fake;
  const std::string job = fake.AddJob("tiny", v1::JOB_STATE_PAUSED);
  fake.RunSteps(job, 4);
  const std::string path = TempDir() + "/curve.png";
  const Ran ran = RunAt(fake, {"plot", job, "-o", path});
  if (ran.code == 0) {
    EXPECT_EQ(ReadFile(path).value_or("").substr(1, 3), "PNG");
  } else {
    EXPECT_NE(ran.err.find("librsvg2-2"), std::string::npos) << ran.err;
    EXPECT_FALSE(ReadFile(path).ok());
  }
}

TEST(PlotTest, RefusesWhatItCannotWrite) {
  const FakeJobs fake;
  const Ran pdf = RunAt(fake, {"plot", "tiny", "-o", "curve.pdf"});
  EXPECT_EQ(pdf.code, 2);
  EXPECT_NE(
      pdf.err.find("-o curve.pdf: cox plot writes SVG and PNG; give a name that ends in .svg"),
      std::string::npos)
      << pdf.err;
  EXPECT_NE(RunAt(fake, {"plot", "tiny"}).err.find("-o curve.svg"), std::string::npos);
  EXPECT_NE(RunAt(fake, {"plot", "-o", "a.svg"}).err.find("give one job or more"),
            std::string::npos);
}

TEST(WatchTest, PlainLinesSummaryAndExitCode) {
  FakeJobs fake;
  const std::string id = fake.AddJob("tiny", v1::JOB_STATE_PAUSED);
  fake.RunSteps(id, 4);
  fake.Edit(id, [](v1::Job* job) {
    job->set_artifact_dir("/out/adapter");
    job->mutable_progress()->set_has_eval(true);
    job->mutable_progress()->set_first_eval_loss(4);
    job->mutable_progress()->set_eval_loss(3);
    job->mutable_progress()->set_eval_perplexity(20.0855);
    job->mutable_progress()->set_eval_token_accuracy(0.4213);
    job->mutable_data()->set_eval_documents(200);
  });
  const Ran ran = RunAt(fake, {"watch", "tiny"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(
      ran.out,
      "tiny-000001 SUCCEEDED at step 4/4\n"
      "held-out loss: 4.0000 before, 3.0000 after (-25.0 %), perplexity 20.09, token accuracy "
      "42.1 %, on 200 records\n"
      "artifact:    /out/adapter\n");
  EXPECT_EQ(ran.err,
            "StateChanged: PAUSED\nStateChanged: RUNNING\n"
            "step 1/4  loss 4.0000  grad norm 1.2500  lr 1.00e-04  51,200 tok/s\n"
            "step 4/4  loss 2.5000  grad norm 1.2500  lr 1.00e-04  51,200 tok/s\n"
            "StateChanged: SUCCEEDED\n");
  EXPECT_EQ(RunAt(fake, {"watch", "tiny", "--progress", "none"}).err, "");
}

TEST(WatchTest, ExitCodeIsTheJobs) {
  FakeJobs fake;
  fake.AddJob("broken", v1::JOB_STATE_FAILED);
  fake.AddJob("stopped", v1::JOB_STATE_CANCELLED);
  fake.AddJob("waiting", v1::JOB_STATE_QUEUED);
  EXPECT_EQ(RunAt(fake, {"watch", "broken"}).code, 1);
  EXPECT_EQ(RunAt(fake, {"watch", "stopped"}).code, 3);
  EXPECT_EQ(RunAt(fake, {"watch", "waiting", "--timeout", "0.1"}).code, 124);
}

TEST(ChangeTest, CancelAndPauseWaitForTheState) {
  FakeJobs fake;
  const std::string id = fake.AddJob("tiny", v1::JOB_STATE_RUNNING);
  EXPECT_EQ(RunAt(fake, {"pause", id, "--no-wait"}).out, "job tiny-000001 DRAINING\n");
  fake.Edit(id, [](v1::Job* job) { job->set_state(v1::JOB_STATE_RUNNING); });
  EXPECT_EQ(RunAt(fake, {"pause", id}).out, "job tiny-000001 PAUSED\n");
  EXPECT_EQ(RunAt(fake, {"resume", id}).out, "job tiny-000001 resumed (READY)\n");
  EXPECT_EQ(RunAt(fake, {"cancel", id, "-o", "name"}).out, "tiny-000001\n");
  const Ran again = RunAt(fake, {"cancel", id});
  EXPECT_EQ(again.code, 1);
  EXPECT_EQ(again.err, "cox: the job ended already\n");
  EXPECT_EQ(RunAt(fake, {"delete", id}).code, 0);
}

TEST(ChangeTest, WarningsOfTheWayThereGoToStderr) {
  FakeJobs fake;
  const std::string id = fake.AddJob("tiny", v1::JOB_STATE_READY);
  const Ran ran = RunAt(fake, {"cancel", id, "--checkpoint"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out, "job tiny-000001 CANCELLED\n");
  EXPECT_EQ(ran.err, "cox: warning: cancelled with nothing to save\n");
}

TEST(StepTest, PrintsEachStepRankByRankAndPausesAgain) {
  FakeJobs fake;
  const std::string id = fake.AddJob("tiny", v1::JOB_STATE_PAUSED);
  const Ran ran = RunAt(fake, {"step", "tiny", "-n", "1"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(
      ran.out,
      "step 1   loss 4.000000   grad norm 1.250000   learning rate 0.0001\n"
      "  RANK   LOSS-SUM   TARGETS   TOKENS   FORWARD   BACKWARD   COMM    OPTIMIZER   TOTAL    "
      "BINS\n"
      "  0      400.0000   100       1,024    10.0ms    20.0ms     1.0ms   2.0ms       40.0ms   0\n"
      "  1      400.0000   100       1,024    10.0ms    20.0ms     1.0ms   2.0ms       40.0ms   1\n"
      "job tiny-000001 PAUSED at step 1/4\n");
  const Json two = Json::parse(RunAt(fake, {"step", "tiny", "-n", "2", "-o", "json"}).out);
  EXPECT_EQ(two["steps"].size(), 2u);
  EXPECT_EQ(two["steps"][1]["step"], 2);
  EXPECT_EQ(two["job"]["progress"]["step"], 3);
  const Ran last = RunAt(fake, {"step", "tiny", "-n", "9"});
  EXPECT_NE(last.out.find("tiny-000001 SUCCEEDED at step 4/4"), std::string::npos) << last.out;
  const Ran ended = RunAt(fake, {"step", "tiny"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.err.find("not PAUSED"), std::string::npos);
}

TEST(InspectTest, EveryRank) {
  FakeJobs fake;
  fake.AddJob("tiny", v1::JOB_STATE_RUNNING);
  const Ran ran = RunAt(fake, {"inspect", "tiny"});
  EXPECT_EQ(
      ran.out,
      "state RUNNING   step 8   loss 3.500000   grad norm 1.250000   MFU 41.2 %\n"
      "RANK   WORKER   HOST   DEVICE   BUILD       STATE     ALLOCATED   RESIDENT   STEP   "
      "LOSS-SUM   "
      "TARGETS   TOKENS   TOKENS/S   FORWARD   BACKWARD   COMM    OPTIMIZER   TOTAL    IDLE\n"
      "0      boat/0   boat   cpu      0.1.0-abc   RUNNING   0 B         64.0 MiB   8      "
      "350.0000   "
      "100       1,024    25,600     10.0ms    0.0ms      0.0ms   0.0ms       40.0ms   0.0ms\n"
      "1      boat/1   boat   cpu      0.1.0-abc   RUNNING   0 B         64.0 MiB   -      - "
      "         -  "
      "       -        -          -         -          -       -           -        -\n"
      "slowest rank 1 on boat: 30.0ms of compute a step, 1.50x the median of the others (20.0ms)\n"
      "waiting for commands: 0.40 % of the time, over the last 9 steps\n"
      "RESIDENT: process resident (with libraries)\n"
      "rank 1: no answer within 2 s\n");
  EXPECT_EQ(
      Json::parse(
          RunAt(fake, {"inspect", "tiny", "-o", "json"}).out)["ranks"][0]["seconds"]["forward"],
      0.01);
  const std::string wide = RunAt(fake, {"inspect", "tiny", "-o", "wide"}).out;
  EXPECT_NE(wide.find("attention: dense\n"), std::string::npos) << wide;
}

TEST(WorkersTest, Table) {
  FakeJobs fake;
  EXPECT_EQ(RunAt(fake, {"workers"}).out,
            "WORKER   STATE   JOB   RANK   KIND   DEVICE        MEMORY     THREADS   HEARTBEAT\n"
            "boat/0   READY   -     -      cpu    cpu           8.00 GiB   1         0.2s\n"
            "boat/1   READY   -     -      cuda   NVIDIA H200   8.00 GiB   1         0.2s\n");
  EXPECT_EQ(Json::parse(RunAt(fake, {"workers", "-o", "json"}).out)["workers"][1]["pid"], 101);
}

TEST(WorkersTest, CordonAndUncordon) {
  FakeJobs fake;
  EXPECT_EQ(RunAt(fake, {"workers", "cordon", "boat/1", "--reason", "fan"}).out,
            "cordoned boat/1: boat/1 get no new job\n");
  const std::string table = RunAt(fake, {"workers"}).out;
  EXPECT_NE(table.find("READY,CORDONED"), std::string::npos) << table;
  EXPECT_NE(table.find("boat/1 is cordoned since 3m12s: by a user: fan\n"), std::string::npos)
      << table;
  EXPECT_EQ(Json::parse(RunAt(fake, {"workers", "-o", "json"}).out)["workers"][1]["cordoned"],
            "by a user: fan");
  EXPECT_EQ(RunAt(fake, {"workers", "uncordon", "boat/1"}).code, 0);
  EXPECT_EQ(RunAt(fake, {"workers"}).out.find("cordoned"), std::string::npos);
  const Ran unknown = RunAt(fake, {"workers", "cordon", "ship"});
  EXPECT_EQ(unknown.code, 4);
  EXPECT_NE(unknown.err.find("'ship'"), std::string::npos);
  EXPECT_EQ(RunAt(fake, {"workers", "cordon"}).code, 2);
}

TEST(TokenTest, IsPrintedOnceAndListedAndRevokedById) {
  FakeJobs fake;
  const Ran made = RunAt(fake, {"token", "create", "--user", "ann", "--expires", "12h"});
  EXPECT_EQ(made.out, "cox_t1_secret\n") << "the token alone, for a file";
  EXPECT_NE(made.err.find("token t1 of user ann, valid until 2026-01-02T15:04:05.678Z"),
            std::string::npos)
      << made.err;
  EXPECT_EQ(
      RunAt(fake, {"token", "create", "--user", "ops", "--role", "operator", "--expires", "never"})
          .code,
      0);
  EXPECT_EQ(RunAt(fake, {"token", "revoke", "t1"}).out, "revoked token t1 of ann\n");
  EXPECT_EQ(RunAt(fake, {"token", "list"}).out,
            "ID   USER   ROLE       STATE     CREATED                    EXPIRES\n"
            "t1   ann    user       REVOKED   2026-01-02T03:04:05.678Z   2026-01-02T15:04:05.678Z\n"
            "t2   ops    operator   VALID     2026-01-02T03:04:05.678Z   never\n");
  EXPECT_EQ(RunAt(fake, {"token", "revoke", "t9"}).code, 4);
  for (const char* wrong : {"30", "d", "0d", "-1d", "1w", ""}) {
    EXPECT_EQ(RunAt(fake, {"token", "create", "--user", "a", "--expires", wrong}).code, 2) << wrong;
  }
  EXPECT_EQ(RunAt(fake, {"token"}).code, 2);
}

TEST(TokenTest, CoxPresentsTheFilesThenTheEnvironmentsThenTheMachines) {
  FakeJobs fake;
  const std::string run = TempDir() + "/run", file = TempDir() + "/token";
  const std::string of_file(40, 'f'), of_machine(40, 'm');
  const auto shown = [&](std::vector<std::string> args) {
    RunAt(fake, std::move(args));
    return fake.shown_token();
  };
  setenv("COXSWAIN_RUNTIME_DIR", run.c_str(), 1);
  EXPECT_EQ(shown({"get"}), "") << "none is there";
  const int port = std::stoi(fake.address().substr(fake.address().rfind(':') + 1));
  ASSERT_TRUE(access::LeaveLocalSecret(port, access::kOperatorToken, of_machine).ok());
  EXPECT_EQ(shown({"get"}), "Bearer " + of_machine);
  fake.TakeOnly("Bearer " + std::string(40, 'n'));
  fake.OnRefusal([&] {
    EXPECT_TRUE(access::LeaveLocalSecret(port, access::kOperatorToken, std::string(40, 'n')).ok());
  });
  EXPECT_EQ(RunAt(fake, {"get"}).code, 0) << "a controller that was started again left another";
  fake.TakeOnly("");
  setenv("COXSWAIN_TOKEN", "given", 1);
  EXPECT_EQ(shown({"get"}), "Bearer given");
  ASSERT_TRUE(access::WriteSecret(file, of_file).ok());
  EXPECT_EQ(shown({"get", "--token-file", file}), "Bearer " + of_file);
  unsetenv("COXSWAIN_TOKEN");
  const Ran missing = RunAt(fake, {"get", "--token-file", file + "-none"});
  EXPECT_NE(missing.code, 0);
  EXPECT_NE(missing.err.find(file + "-none"), std::string::npos) << missing.err;
  unsetenv("COXSWAIN_RUNTIME_DIR");
}

TEST(LogsTest, RanksAndTail) {
  FakeJobs fake;
  const std::string id = fake.AddJob("tiny", v1::JOB_STATE_SUCCEEDED);
  fake.AddLog(id, -1, R"({"msg":"a"})");
  fake.AddLog(id, 0, R"({"msg":"b"})");
  fake.AddLog(id, 1, R"({"msg":"c"})");
  EXPECT_EQ(RunAt(fake, {"logs", id, "--rank", "0", "-o", "json"}).out, "{\"msg\":\"b\"}\n");
  EXPECT_EQ(RunAt(fake, {"logs", id, "-f", "--tail", "1", "-o", "json"}).out, "{\"msg\":\"c\"}\n");
  EXPECT_EQ(RunAt(fake, {"logs", id, "--tail", "3"})
                .out.find("2026-01-02T03:04:05.678Z  controller  info     a\n"),
            0u);
}

TEST(ExplainTest, Text) {
  FakeJobs fake;
  fake.AddJob("tiny", v1::JOB_STATE_READY);
  EXPECT_EQ(RunAt(fake, {"explain", "tiny"}).out, "tiny-000001 needs 2 workers; 1 is free\n");
}

TEST(DownloadTest, WritesEveryFileWhole) {
  FakeJobs fake;
  fake.AddJob("tiny", v1::JOB_STATE_SUCCEEDED);
  const std::string weights(2500, 'w');
  fake.AddArtifact("adapter_model.safetensors", weights, 2500);
  fake.AddArtifact("sub/empty", "", 0);
  const std::string dir = TempDir() + "/download";
  std::filesystem::remove_all(dir);
  const Ran ran = RunAt(fake, {"download", "tiny", "-o", dir});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, dir + "/adapter_model.safetensors\n" + dir + "/sub/empty\n");
  std::ifstream in(dir + "/adapter_model.safetensors");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), weights);
  EXPECT_TRUE(std::filesystem::exists(dir + "/sub/empty"));
}

// Invariant cli-5.
TEST(DownloadTest, RefusesShortFilesAndNamesThatLeaveTheDirectory) {
  FakeJobs fake;
  fake.AddJob("tiny", v1::JOB_STATE_SUCCEEDED);
  fake.AddArtifact("short", "abc", 4);
  const std::string dir = TempDir() + "/refused";
  std::filesystem::remove_all(dir);
  const Ran cut = RunAt(fake, {"download", "tiny", "-o", dir});
  EXPECT_EQ(cut.code, 1);
  EXPECT_NE(cut.err.find("3 of 4 bytes"), std::string::npos) << cut.err;
  EXPECT_TRUE(std::filesystem::is_empty(dir));
  for (const char* name : {"../evil", "/evil", "a/../../evil"}) {
    FakeJobs evil;
    evil.AddJob("tiny", v1::JOB_STATE_SUCCEEDED);
    evil.AddArtifact(name, "abc", 3);
    EXPECT_EQ(RunAt(evil, {"download", "tiny", "-o", dir}).code, 2) << name;
  }
}

TEST(VersionTest, WithAndWithoutController) {
  FakeJobs fake;
  EXPECT_NE(RunAt(fake, {"version"}).out.find("controller 0.1.0 (abc) at 127.0.0.1:"),
            std::string::npos);
  const Ran alone = RunInProcess({"version", "--server", "127.0.0.1:1", "-o", "json"});
  EXPECT_EQ(alone.code, 0);
  EXPECT_TRUE(Json::parse(alone.out)["controller"].is_null());
}

TEST(ModelsTest, ListsFamiliesAndJudgesAModel) {
  const Json families = Json::parse(RunInProcess({"models", "-o", "json"}).out)["families"];
  EXPECT_GE(families.size(), 5u);
  EXPECT_EQ(families[0]["architecture"], "CohereForCausalLM");
  const support::ScratchFolder folder;
  Json config = {{"architectures", {"LlamaForCausalLM"}},
                 {"vocab_size", 10},
                 {"hidden_size", 4},
                 {"intermediate_size", 6},
                 {"num_hidden_layers", 1},
                 {"num_attention_heads", 2},
                 {"logit_scale", 2}};
  folder.Write("config.json", config.dump());
  const Ran read = RunInProcess({"models", folder.path()});
  EXPECT_EQ(read.code, 0);
  EXPECT_EQ(read.out.find("supported: LlamaForCausalLM, 228 parameters, 1 layers"), 0u) << read.out;
  EXPECT_NE(read.err.find("not read: logit_scale"), std::string::npos) << read.err;
  config["architectures"] = {"MambaForCausalLM"};
  folder.Write("config.json", config.dump());
  const Ran refused = RunInProcess({"models", folder.path()});
  EXPECT_NE(refused.code, 0);
  EXPECT_NE(refused.err.find("\"MambaForCausalLM\" is not supported; supported: "),
            std::string::npos);
}

TEST(CompletionTest, NamesEveryVerb) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = RunInProcess({"completion", shell}).out;
    for (const char* verb :
         {"submit",   "validate", "plan",   "get",      "describe",   "logs",     "watch",
          "events",   "cancel",   "pause",  "resume",   "workers",    "inspect",  "step",
          "explain",  "download", "data",   "tokenize", "completion", "version",  "up",
          "down",     "train",    "delete", "dump",     "health",     "template", "models",
          "generate", "export",   "pull",   "plot"}) {
      EXPECT_NE(script.find(verb), std::string::npos) << shell << " " << verb;
    }
    EXPECT_NE(script.find("idempotency-key"), std::string::npos) << shell;
  }
}

}  // namespace
}  // namespace coxswain::cli
