// cox export, without a server: a checkpoint's folder is all that there is.
#include "controller/cli/jobs/export_checkpoint.h"

#include "absl/strings/str_cat.h"
#include "common/config/parser/job_parser.h"
#include "controller/checkpoint/manifest.h"
#include "tests/controller/cli/run_cox.h"
#include "tests/controller/export/export_fixture.h"

namespace coxswain::cli {
namespace {

namespace fs = std::filesystem;

using support::ReadFile;

class ExportCheckpointTest : public exports::ExportTest {
 protected:
  // A checkpoint of a job that trains this adapter of the quickstart's model.
  void SaveLora() {
    const std::string model = fs::absolute("deploy/quickstart/model").string();
    UseModel(model);
    AddLora(4, 8, false);
    TrainGroup(model::IsAdapter);
    WriteCheckpoint([](const model::Parameter& p, float* out) {
      for (int64_t i = 0; i < p.elements(); ++i) out[i] = 0.01f * static_cast<float>(i % 7);
    });
    Seal(EffectiveJob(model, "lora"));
  }
  static std::string EffectiveJob(const std::string& model, const std::string& adapter) {
    const config::ParsedJob job = config::ParseJob(
        absl::StrCat("apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: tiny}\nspec:\n",
                     "  base_model: ", model, "\n  adapter: ", adapter,
                     "\n  lora: {r: 4, alpha: 8, target_modules: all-linear}\n"
                     "  datasets: [{path: /gone.jsonl}]\n  resources: {device: cpu}\n"),
        "/");
    EXPECT_TRUE(job.errors.empty()) << config::FormatErrors(job.errors, "job.yaml");
    return job.effective_json;
  }
  void Seal(const std::string& effective_json) {
    checkpoint::Manifest manifest{.job = "job-1", .effective_json = effective_json};
    manifest.run.step = 10;
    for (const char* name : {"rank-0.safetensors", "rank-1.safetensors"}) {
      const auto digests = files_.Digests(request_.checkpoint_dir + "/" + name);
      ASSERT_TRUE(digests.ok()) << digests.status();
      manifest.files.push_back(FileInBlocks(name, *digests));
    }
    ASSERT_TRUE(
        files_.WriteDurably(request_.checkpoint_dir + "/manifest.json", ToJson(manifest)).ok());
  }
  void Refused(const std::vector<std::string>& args, const std::string& why) {
    const Ran ran = RunInProcess(args);
    EXPECT_NE(ran.code, 0);
    EXPECT_NE(ran.err.find(why), std::string::npos) << ran.err;
  }
  const std::string target_ = directory_ + "/exported";
};

// It is what the job itself would have exported.
TEST_F(ExportCheckpointTest, AFolderGivesTheAdapterThatItsJobWouldExport) {
  SaveLora();
  const Ran ran = RunInProcess({"export", request_.checkpoint_dir, "-o", target_ + "/"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, target_ + "\n");
  const auto job = exports::ExportArtifacts(&files_, request_);
  ASSERT_TRUE(job.ok()) << job.status();
  for (const char* name : {"/adapter_model.safetensors", "/adapter_config.json"}) {
    EXPECT_EQ(ReadFile(target_ + name), ReadFile(job->directory + name)) << name;
  }
  for (const auto& entry : fs::directory_iterator(directory_)) {  // no scratch is left
    EXPECT_EQ(entry.path().string().find(".export-"), std::string::npos) << entry.path();
  }
}

TEST_F(ExportCheckpointTest, MergeGivesTheModelToo) {
  SaveLora();
  const Ran ran = RunInProcess({"export", request_.checkpoint_dir, "-o", target_, "--merge"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, target_ + "\n" + target_ + "/model\n");
  EXPECT_TRUE(fs::exists(target_ + "/adapter_config.json"));
  EXPECT_TRUE(fs::exists(target_ + "/model/config.json"));
}

TEST_F(ExportCheckpointTest, GgufIsWrittenBesideOrRefusedByName) {
  SaveLora();
  const std::string& checkpoint = request_.checkpoint_dir;
  const Ran ran = RunInProcess(
      {"export", checkpoint, "-o", target_, "--gguf-adapter", "f16", "--gguf", "q4_k_m"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(fs::exists(target_ + "/adapter-F16.gguf"));
  EXPECT_TRUE(fs::exists(target_ + "/model-Q4_K_M.gguf"));
  fs::remove_all(target_);
  Refused({"export", checkpoint, "-o", target_, "--gguf", "q4_k_s"},
          "--gguf q4_k_s: is no type that is written");
  for (const char* type : {"q8_0", "q4_k_m"}) {
    Refused({"export", checkpoint, "-o", target_, "--gguf-adapter", type}, "give f32, f16 or bf16");
  }
  Seal(EffectiveJob(request_.plan.model_path, "none"));
  Refused({"export", checkpoint, "-o", target_, "--gguf-adapter", "f16"}, "give --gguf in place");
  EXPECT_FALSE(fs::exists(target_));
}

TEST_F(ExportCheckpointTest, AJobOfAServerNamesItsCheckpointsByStep) {
  SaveLora();
  FakeJobs fake;
  const std::string id = fake.AddJob("tiny", v1::JOB_STATE_CANCELLED);
  fake.Edit(id, [this](v1::Job* job) {
    v1::CheckpointInfo* info = job->add_checkpoints();
    info->set_step(10);
    info->set_directory(request_.checkpoint_dir);
  });
  const Ran other = RunAt(fake, {"export", "tiny:7", "-o", target_});
  EXPECT_NE(other.err.find("has no checkpoint of step 7; it has those of steps 10"),
            std::string::npos)
      << other.err;
  EXPECT_EQ(RunAt(fake, {"export", "tiny:10", "-o", target_}).out, target_ + "\n");
  EXPECT_TRUE(fs::exists(target_ + "/adapter_config.json"));
}

TEST_F(ExportCheckpointTest, WhatCannotBeExportedIsRefusedWithTheReason) {
  SaveLora();
  const std::string& checkpoint = request_.checkpoint_dir;
  fs::create_directories(target_ + "/mine");
  Refused({"export", checkpoint, "-o", target_}, "is not empty");
  fs::remove_all(target_);
  Seal(EffectiveJob("/nowhere", "lora"));
  Refused({"export", checkpoint, "-o", target_}, "give its directory with --base-model DIR");
  Seal(EffectiveJob(request_.plan.model_path, "none"));
  Refused({"export", checkpoint, "-o", target_, "--merge"}, "leave --merge out");
  Seal("");
  Refused({"export", checkpoint, "-o", target_}, "an earlier release wrote it");
  std::string shard = ReadFile(checkpoint + "/rank-0.safetensors");
  shard.back() ^= 1;
  ASSERT_TRUE(files_.WriteDurably(checkpoint + "/rank-0.safetensors", shard).ok());
  Refused({"export", checkpoint, "-o", target_}, "rank-0.safetensors");
  EXPECT_FALSE(fs::exists(target_));
}

}  // namespace
}  // namespace coxswain::cli
