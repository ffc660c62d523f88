#include "common/files/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "common/files/regular_file.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

constexpr int64_t kBytes = 10 * 4096 + 100;

int64_t Sum(std::string_view bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

class MappedFileTest : public testing::Test {
 protected:
  MappedFileTest() { EXPECT_NE(file_, nullptr); }
  void Cut(int64_t bytes) { ASSERT_EQ(truncate(path_.c_str(), bytes), 0); }

  const support::ScratchFolder scratch_;
  const std::string path_ = scratch_.Write("file", std::string(kBytes, '\1'));
  const std::unique_ptr<MappedFile> file_ = MappedFile::Open(path_).value();
};

TEST_F(MappedFileTest, HoldsTheBytes) {
  EXPECT_EQ(Sum(file_->bytes()), kBytes);
  EXPECT_TRUE(file_->Intact().ok());
  const auto empty = MappedFile::Open(scratch_.Write("empty", ""));
  ASSERT_TRUE(empty.ok());
  EXPECT_TRUE((*empty)->bytes().empty());
  EXPECT_TRUE((*empty)->Intact().ok());
}

// Without the handler the process dies of SIGBUS here.
TEST_F(MappedFileTest, ReadsZerosWhereTheFileWasCut) {
  Cut(2 * 4096);
  EXPECT_EQ(Sum(file_->bytes()), 2 * 4096);
  const absl::Status lost = file_->Intact();
  EXPECT_TRUE(absl::IsDataLoss(lost));
  EXPECT_EQ(lost.message(), path_ +
                                " was cut to 8192 bytes, it had 41060 when it was opened; "
                                "put it back");
}

TEST_F(MappedFileTest, TellsACutInsideTheLastPageTouched) {
  Cut(kBytes - 10);
  EXPECT_EQ(Sum(file_->bytes()), kBytes - 10);  // no signal there
  EXPECT_TRUE(absl::IsDataLoss(file_->Intact()));
}

TEST_F(MappedFileTest, StaysLostWhenTheFileGrowsAgain) {
  Cut(0);
  EXPECT_EQ(Sum(file_->bytes()), 0);
  Cut(kBytes);
  EXPECT_TRUE(absl::IsDataLoss(file_->Intact()));
}

TEST_F(MappedFileTest, IsIntactWhenAnotherFileTookItsName) {
  const std::string other = scratch_.Write("other", "short");
  ASSERT_EQ(rename(other.c_str(), path_.c_str()), 0);
  EXPECT_EQ(Sum(file_->bytes()), kBytes);
  EXPECT_TRUE(file_->Intact().ok());
}

TEST_F(MappedFileTest, LosesOnlyTheFileThatWasCut) {
  const auto other = MappedFile::Open(scratch_.Write("whole", std::string(kBytes, '\1'))).value();
  Cut(4096);
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) readers.emplace_back([&] { EXPECT_EQ(Sum(file_->bytes()), 4096); });
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(Sum(other->bytes()), kBytes);
  EXPECT_TRUE(other->Intact().ok());
  EXPECT_FALSE(file_->Intact().ok());
}

TEST_F(MappedFileTest, RefusesWhatIsNoFile) {
  const std::string fifo = scratch_.path() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(MappedFile::Open(fifo).status()));
}

// A fault elsewhere is as deadly as without the handler.
TEST_F(MappedFileTest, LeavesTheSignalOfOthersAsItIs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(raise(SIGBUS), testing::KilledBySignal(SIGBUS), "");
  const std::string path = scratch_.Write("not_ours", std::string(kBytes, '\1'));
  const Descriptor descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto* mapped = static_cast<const volatile char*>(
      mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE, descriptor.get(), 0));
  ASSERT_EQ(truncate(path.c_str(), 0), 0);
  EXPECT_EXIT(mapped[5000], testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace coxswain
