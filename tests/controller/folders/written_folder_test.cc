// What of an output directory may be replaced or deleted.
#include "controller/folders/written_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "controller/folders/seal_folder.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

namespace fs = std::filesystem;
using State = Finding::State;

class WrittenFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_.path);
    Write("adapter_config.json", "{}");
    Write("adapter_model.safetensors", std::string(2 << 20, 'a'));
    ASSERT_TRUE(SealFolder(&files_, folder_.path, {.job = "job-a", .step = 7}).ok());
  }

  void Write(const std::string& name, const std::string& content) {
    std::ofstream(folder_.path + "/" + name, std::ios::binary) << content;
  }
  Finding Look(int64_t most_read = 1 << 30) {
    ReadingLimit limit{most_read};
    const absl::StatusOr<Finding> found = LookAtFolder(&files_, folder_, &limit);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? *found : Finding{};
  }
  // It stands, and whoever wants to replace or delete it is told `path`.
  void ExpectStands(State state, const std::string& path) {
    const Finding found = Look();
    EXPECT_EQ(found.state, state) << found.what;
    EXPECT_TRUE(found.what.starts_with(path)) << found.what;
    fs::create_directories(out_ + "/.staging/new");
    const absl::Status replaced = ReplaceWritten(&files_, out_ + "/.staging/new", folder_).status();
    const absl::Status removed = RemoveWritten(&files_, folder_, out_ + "/.staging/old");
    for (const absl::Status& status : {replaced, removed}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_NE(status.message().find(path), absl::string_view::npos) << status;
    }
    EXPECT_TRUE(fs::exists(fs::symlink_status(path)));
  }

  const support::ScratchFolder scratch_;
  const std::string out_ = scratch_.path() + "/out";
  const WrittenFolder folder_ = AdapterFolder(out_);
  DiskFiles files_;
};

TEST_F(WrittenFolderTest, WhatAJobWroteIsReplacedAndDeleted) {
  const Finding found = Look(0);
  EXPECT_EQ(found.state, State::kOurs);
  EXPECT_EQ(found.job, "job-a");
  fs::create_directories(out_ + "/.staging/new");
  const absl::StatusOr<Finding> replaced = ReplaceWritten(&files_, out_ + "/.staging/new", folder_);
  ASSERT_TRUE(replaced.ok()) << replaced.status();
  EXPECT_EQ(replaced->job, "job-a");
  EXPECT_TRUE(fs::is_empty(folder_.path));
  EXPECT_EQ(Look().state, State::kFree);
  EXPECT_TRUE(RemoveWritten(&files_, folder_, out_ + "/.staging/old").ok());
  EXPECT_FALSE(fs::exists(folder_.path));
  EXPECT_EQ(Look().state, State::kFree);
  EXPECT_TRUE(fs::is_empty(out_ + "/.staging"));
}

TEST_F(WrittenFolderTest, FilesInAFolderOfItAreOfTheJobToo) {
  fs::create_directories(folder_.path + "/additional_chat_templates");
  Write("additional_chat_templates/tool_use.jinja", "{{ tools }}");
  ExpectStands(State::kForeign, folder_.path + "/additional_chat_templates");
  fs::remove(folder_.ManifestPath());
  ASSERT_TRUE(SealFolder(&files_, folder_.path, {.job = "job-a", .step = 7}).ok());
  EXPECT_EQ(Look().state, State::kOurs) << Look().what;
  const auto seal = ReadSeal(&files_, folder_.path);
  ASSERT_TRUE(seal.ok()) << seal.status();
  EXPECT_TRUE(std::any_of(seal->files.begin(), seal->files.end(), [](const ManifestFile& file) {
    return file.name == "additional_chat_templates/tool_use.jinja";
  }));
  Write("additional_chat_templates/mine.jinja", "{{ mine }}");
  ExpectStands(State::kForeign, folder_.path + "/additional_chat_templates/mine.jinja");
}

// Invariant driver-12.
TEST_F(WrittenFolderTest, AStrangersFileInsideStands) {
  for (const char* name : {"notes.txt", ".DS_Store", "README.md"}) {
    Write(name, "mine");
    ExpectStands(State::kForeign, folder_.path + "/" + name);
    fs::remove(folder_.path + "/" + name);
  }
  fs::create_directories(folder_.path + "/runs/1");
  ExpectStands(State::kForeign, folder_.path + "/runs");
}

TEST_F(WrittenFolderTest, AnEditedFileIsNamedThoughItsTimeIsTheOldOne) {
  const std::string path = folder_.path + "/adapter_config.json";
  const auto time = fs::last_write_time(path);
  Write("adapter_config.json", "[]");
  fs::last_write_time(path, time);
  ExpectStands(State::kChanged, path);
}

TEST_F(WrittenFolderTest, ALargeFileIsReadWhereItsTimeIsAnotherOne) {
  const std::string path = folder_.path + "/adapter_model.safetensors";
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::hours(1));
  EXPECT_EQ(Look().state, State::kOurs);  // copied, say
  Write("adapter_model.safetensors", std::string(2 << 20, 'b'));
  EXPECT_EQ(Look(1 << 20).state, State::kOurs);  // left to who replaces it
  ExpectStands(State::kChanged, path);
  Write("adapter_model.safetensors", "short");
  ExpectStands(State::kChanged, path);
}

TEST_F(WrittenFolderTest, AFileThatIsGoneIsNobodysLoss) {
  fs::remove(folder_.path + "/adapter_model.safetensors");
  EXPECT_EQ(Look().state, State::kOurs);
}

TEST_F(WrittenFolderTest, ALinkAFifoAndAFileAreNotFollowedReadOrReplaced) {
  const std::string elsewhere = scratch_.path() + "/elsewhere";
  fs::rename(folder_.path, elsewhere);
  fs::create_directory_symlink(elsewhere, folder_.path);
  ExpectStands(State::kForeign, folder_.path);
  fs::remove(folder_.path);
  fs::create_directory_symlink(scratch_.path() + "/nowhere", folder_.path);
  EXPECT_EQ(Look().state, State::kForeign);
  fs::remove(folder_.path);
  std::ofstream(folder_.path) << "mine";
  ExpectStands(State::kForeign, folder_.path);
  fs::remove(folder_.path);
  fs::rename(elsewhere, folder_.path);
  const std::string config = folder_.path + "/adapter_config.json";
  fs::rename(config, scratch_.path() + "/config");
  fs::create_symlink(scratch_.path() + "/config", config);
  ExpectStands(State::kForeign, config);
  fs::remove(config);
  ASSERT_EQ(mkfifo(config.c_str(), 0600), 0);
  ExpectStands(State::kForeign, config);
}

TEST_F(WrittenFolderTest, AFolderOfTheReleaseWithoutManifestsIsAdopted) {
  fs::remove(folder_.ManifestPath());
  ExpectStands(State::kForeign, folder_.path);  // as peft itself writes them
  Write("README.md", "LoRA adapter, trained by Coxswain.");
  EXPECT_EQ(Look().state, State::kAdopted);
  Write("optimizer.pt", "mine");
  ExpectStands(State::kForeign, folder_.path + "/optimizer.pt");
}

TEST_F(WrittenFolderTest, AModelWithoutManifestIsAdoptedBesideACheckpointOfAJob) {
  const WrittenFolder model = ModelFolder(out_);
  fs::create_directories(model.path);
  for (const char* name : {"config.json", "model-00001-of-00002.safetensors"}) {
    std::ofstream(model.path + "/" + name) << "x";
  }
  ReadingLimit none;
  EXPECT_EQ(LookAtFolder(&files_, model, &none)->state, State::kForeign);
  fs::create_directories(out_ + "/checkpoint-10");
  std::ofstream(out_ + "/checkpoint-10/manifest.json")
      << R"({"format": "coxswain-checkpoint/2", "job": "old", "files": []})";
  EXPECT_EQ(LookAtFolder(&files_, model, &none)->state, State::kAdopted);
}

// It is looked at again where nobody finds it any more.
TEST_F(WrittenFolderTest, AFileThatComesBetweenTheLookAndTheMoveGoesBackWithIt) {
  class Racing : public DiskFiles {
   public:
    absl::Status RenameDirectory(const std::string& from, const std::string& to) override {
      if (to.find(".staging") != std::string::npos) std::ofstream(from + "/late.txt") << "mine";
      return DiskFiles::RenameDirectory(from, to);
    }
  } racing;
  fs::create_directories(out_ + "/.staging/new");
  EXPECT_EQ(ReplaceWritten(&racing, out_ + "/.staging/new", folder_).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs::exists(folder_.path + "/late.txt"));
  fs::remove(folder_.path + "/late.txt");
  EXPECT_EQ(RemoveWritten(&racing, folder_, out_ + "/.staging/old").code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs::exists(folder_.path + "/late.txt"));
  EXPECT_TRUE(fs::exists(folder_.path + "/adapter_config.json"));
}

}  // namespace
}  // namespace coxswain
