#include <gtest/gtest.h>

#include "common/host.h"
#include "controller/checkpoint/checkpoint_files.h"
#include "controller/cli/machine/local_resources.h"
#include "tests/common/config/default_spec.h"
#include "tests/sim/fakes/memory_files.h"

namespace coxswain::cli {
namespace {

TEST(WorkerThreadsTest, WorkersShareEveryCore) {
  EXPECT_EQ(SharedThreads(1), UsableCpus());
  EXPECT_EQ(SharedThreads(2), std::max(1, UsableCpus() / 2));
  EXPECT_EQ(SharedThreads(100000), 1);
}

TEST(WorkerThreadsTest, AJobGoesOnWithThoseThatItBeganWith) {
  sim::MemoryFiles files;
  config::JobSpec job = config::DefaultSpec();
  job.output_dir = "/out";
  EXPECT_EQ(ThreadsOfCheckpoint(&files, job), 0);
  const auto save = [&files](int64_t step, int64_t threads) {
    checkpoint::Manifest manifest{.job = "first", .threads = threads};
    manifest.run.step = step;
    const std::string directory = checkpoint::CheckpointDirectory("/out", step);
    ASSERT_TRUE(files.MakeDirs(directory).ok());
    ASSERT_TRUE(files.WriteDurably(directory + "/manifest.json", ToJson(manifest)).ok());
  };
  save(10, 3);
  EXPECT_EQ(ThreadsOfCheckpoint(&files, job), 3);
  save(20, 0);  // of an earlier release
  EXPECT_EQ(ThreadsOfCheckpoint(&files, job), 3);
  job.resume = "never";
  EXPECT_EQ(ThreadsOfCheckpoint(&files, job), 0);
  job.resume = "/out/checkpoint-10";
  EXPECT_EQ(ThreadsOfCheckpoint(&files, job), 3);
}

}  // namespace

}  // namespace coxswain::cli
