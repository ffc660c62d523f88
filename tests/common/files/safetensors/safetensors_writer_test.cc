#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "common/files/hash.h"
#include "common/files/safetensors/safetensors.h"
#include "common/files/safetensors/safetensors_blocks.h"
#include "common/files/safetensors/safetensors_writer.h"
#include "gtest/gtest.h"
#include "tests/support/golden_folder.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

namespace fs = std::filesystem;
using support::ReadFile;

int64_t FilesIn(const std::string& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

TensorSource Source(const std::string& name, ElementType dtype, std::vector<int64_t> shape,
                    const std::string& bytes) {
  return {.name = name, .dtype = dtype, .shape = std::move(shape), .fill = [bytes](uint8_t* out) {
            std::copy(bytes.begin(), bytes.end(), out);
            return absl::OkStatus();
          }};
}

// Runs `body` in a child process and returns its exit status.
int InChild(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Invariant common-5.
TEST(SafetensorsWriterTest, WritesTheReferenceBytes) {
  const support::ScratchFolder scratch;
  const std::string path = scratch.path() + "/two.safetensors";
  const auto written =
      WriteSafetensors(path, {Source("a", ElementType::kBF16, {2}, std::string("\1\2\3\4", 4)),
                              Source("b", ElementType::kF32, {1}, std::string("\5\6\7\x08", 4))});
  ASSERT_TRUE(written.ok()) << written.status();
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
      R"("a":{"dtype":"BF16","shape":[2],"data_offsets":[4,8]}})";
  ASSERT_EQ(header.size(), 139u);
  const std::string expected = std::string("\x90\0\0\0\0\0\0\0", 8) + header + "     " +
                               std::string("\5\6\7\x08\1\2\3\4", 8);
  EXPECT_EQ(ReadFile(path), expected);
  EXPECT_EQ(written->bytes, static_cast<int64_t>(expected.size()));
}

TEST(SafetensorsWriterTest, SortsByDTypeDescendingThenName) {
  const support::ScratchFolder scratch;
  const std::string path = scratch.path() + "/order.safetensors";
  ASSERT_TRUE(WriteSafetensors(path, {Source("z", ElementType::kU8, {1}, "1"),
                                      Source("a", ElementType::kF16, {1}, "12"),
                                      Source("c", ElementType::kBF16, {1}, "34"),
                                      Source("b", ElementType::kBF16, {1}, "56"),
                                      Source("y", ElementType::kI64, {1}, "12345678"),
                                      Source("e", ElementType::kF32, {0}, "")})
                  .ok());
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  std::string order;
  for (const TensorInfo& tensor : (*file)->tensors()) order += tensor.name;
  EXPECT_EQ(order, "yebcaz");
}

TEST(SafetensorsWriterTest, EscapesNamesAsJson) {
  const support::ScratchFolder scratch;
  const std::string path = scratch.path() + "/names.safetensors";
  const std::string odd = "quote\" back\\ tab\t \x01 snow\xe2\x98\x83";
  ASSERT_TRUE(WriteSafetensors(path, {Source(odd, ElementType::kU8, {1}, "1")}).ok());
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_NE((*file)->Find(odd), nullptr);
  EXPECT_NE(ReadFile(path).find(R"(quote\" back\\ tab\t \u0001 snow)"), std::string::npos);
}

// A file of the reference implementation, read and written again, keeps every byte.
TEST(SafetensorsWriterTest, RewritesReferenceFilesByteForByte) {
  const std::vector<fs::path> paths = {
      "deploy/quickstart/model/model.safetensors",
      support::GoldenFolder("qwen2_lora") + "/adapter/adapter_model.safetensors"};
  const support::ScratchFolder scratch;
  const std::string copy = scratch.path() + "/copy.safetensors";
  for (const fs::path& path : paths) {
    const auto file = SafetensorsFile::Open(path.string());
    ASSERT_TRUE(file.ok()) << file.status();
    std::vector<TensorSource> sources;
    for (const TensorInfo& tensor : (*file)->tensors()) {
      sources.push_back({.name = tensor.name,
                         .dtype = tensor.dtype,
                         .shape = tensor.shape,
                         .fill = [&tensor](uint8_t* out) {
                           std::memcpy(out, tensor.data, static_cast<size_t>(tensor.bytes));
                           return absl::OkStatus();
                         }});
    }
    const auto written = WriteSafetensors(copy, sources, (*file)->metadata());
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(ReadFile(path.string()), ReadFile(copy)) << path;
  }
}

// Blocks that hold a header and tensors, one tensor, and the ends of several.
TEST(SafetensorsBlocksTest, WritesTheSameBytesAndTheirDigests) {
  const support::ScratchFolder scratch;
  const std::string path = scratch.path() + "/blocks", other = scratch.path() + "/one";
  std::vector<std::string> values;
  std::vector<TensorSource> sources;
  std::vector<TensorInMemory> tensors;
  values.reserve(5);
  for (const int64_t bytes :
       {int64_t{3}, int64_t{0}, 3 * kDigestBlockBytes, int64_t{1}, int64_t{70}}) {
    std::string& value = values.emplace_back(static_cast<size_t>(bytes), 'x');
    for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * i >> 5);
    const std::string name = "t" + std::to_string(values.size());
    sources.push_back(Source(name, ElementType::kU8, {bytes}, value));
    tensors.push_back({.form = {name, ElementType::kU8, {bytes}}, .data = value.data()});
  }
  ASSERT_TRUE(WriteSafetensors(other, sources, {{"format", "pt"}}).ok());
  for (const int threads : {1, 3}) {
    const auto written =
        WriteSafetensorsBlocks(path, tensors, {{"format", "pt"}}, {.threads = threads});
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(ReadFile(path), ReadFile(other));
    EXPECT_EQ(*written, DigestsOf(ReadFile(path)));
  }
  tensors.push_back(tensors.front());
  EXPECT_FALSE(WriteSafetensorsBlocks(path, tensors, {}, {}).ok());
}

TEST(SafetensorsBlocksTest, ACancelledOrFailedWriteLeavesNothing) {
  const support::ScratchFolder scratch;
  const std::string path = scratch.path() + "/file";
  const std::string value(64, 'v');
  const std::vector<TensorInMemory> tensors = {
      {.form = {"a", ElementType::kU8, {64}}, .data = value.data()}};
  const auto cancelled = WriteSafetensorsBlocks(
      path, tensors, {}, {.check = [] { return absl::CancelledError("stop"); }});
  EXPECT_EQ(cancelled.status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(fs::is_empty(scratch.path()));
  const auto nowhere = WriteSafetensorsBlocks(scratch.path() + "/none/file", tensors, {}, {});
  EXPECT_EQ(nowhere.status().code(), absl::StatusCode::kNotFound);
}

// Invariant common-6.
TEST(SafetensorsBlocksTest, AKillDuringTheWriteLeavesNoFileOfThatName) {
  const support::ScratchFolder scratch;
  const std::string path = scratch.path() + "/file";
  const int code = InChild([&] {
    const std::string value(static_cast<size_t>(3 * kDigestBlockBytes), 'v');
    int blocks = 0;
    (void)WriteSafetensorsBlocks(
        path, {{.form = {"a", ElementType::kU8, {3 * kDigestBlockBytes}}, .data = value.data()}},
        {}, {.check = [&blocks] {
          if (++blocks == 3) std::raise(SIGKILL);
          return absl::OkStatus();
        }});
    return 0;
  });
  EXPECT_EQ(code, -1);
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(FilesIn(scratch.path()), 1);  // which goes with its staging directory
}

TEST(SafetensorsWriterTest, RefusesWhatNoReaderWouldAccept) {
  const support::ScratchFolder scratch;
  const std::string& folder = scratch.path();
  const std::string path = folder + "/bad.safetensors";
  const TensorSource good = Source("a", ElementType::kU8, {1}, "1");
  for (const TensorSource& bad :
       {Source("a", ElementType::kF32, {1}, "1234"),
        Source("__metadata__", ElementType::kU8, {1}, "1"),
        Source("\xff", ElementType::kU8, {1}, "1"), Source("n", ElementType::kU8, {-1}, ""),
        Source("h", ElementType::kF4, {1}, ""),
        Source("o", ElementType::kF32, {int64_t{1} << 62, 4}, "")}) {
    const auto written = WriteSafetensors(path, {good, bad});
    EXPECT_EQ(written.status().code(), absl::StatusCode::kInvalidArgument) << bad.name;
  }
  EXPECT_EQ(FilesIn(folder), 0);
}

// Invariant common-6.
TEST(SafetensorsWriterTest, FailingFillLeavesTheOldFile) {
  const support::ScratchFolder scratch;
  const std::string& folder = scratch.path();
  const std::string path = folder + "/kept.safetensors";
  ASSERT_TRUE(WriteSafetensors(path, {Source("a", ElementType::kU8, {1}, "1")}).ok());
  const std::string before = ReadFile(path);
  TensorSource failing = Source("a", ElementType::kU8, {1}, "2");
  failing.fill = [](uint8_t*) { return absl::DataLossError("source is gone"); };
  EXPECT_EQ(WriteSafetensors(path, {failing}).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReadFile(path), before);
  EXPECT_EQ(FilesIn(folder), 1);
}

TEST(SafetensorsWriterTest, PathBelowAFileIsNotFoundAndNamed) {
  const support::ScratchFolder scratch;
  const std::string& folder = scratch.path();
  std::ofstream(folder + "/file") << "x";
  const std::string path = folder + "/file/out.safetensors";
  const absl::Status status =
      WriteSafetensors(path, {Source("a", ElementType::kU8, {1}, "1")}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.ToString().find(path), std::string::npos) << status;
}

TEST(SafetensorsWriterTest, UnwritableFolderIsPermissionDenied) {
  const support::ScratchFolder scratch;
  const std::string& folder = scratch.path();
  ASSERT_EQ(::chmod(folder.c_str(), 0555), 0);
  const int code = InChild([&] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 77;
    const auto written = WriteSafetensors(folder + "/a", {Source("a", ElementType::kU8, {1}, "1")});
    return written.status().code() == absl::StatusCode::kPermissionDenied ? 0 : 1;
  });
  ::chmod(folder.c_str(), 0755);
  if (code == 77) GTEST_SKIP() << "cannot give up root here";
  EXPECT_EQ(code, 0);
  EXPECT_EQ(FilesIn(folder), 0);
}

TEST(SafetensorsWriterTest, FileSizeLimitIsResourceExhaustedAndLeavesNothing) {
  const support::ScratchFolder scratch;
  const std::string& folder = scratch.path();
  const std::string path = folder + "/large.safetensors";
  const int code = InChild([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 1000, .rlim_max = 1000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 77;
    const auto written =
        WriteSafetensors(path, {Source("a", ElementType::kU8, {5000}, std::string(5000, 'x'))});
    const bool named = written.status().ToString().find(path) != std::string::npos;
    return named && written.status().code() == absl::StatusCode::kResourceExhausted ? 0 : 1;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(FilesIn(folder), 0);
}

TEST(SafetensorsWriterTest, FullDiskIsResourceExhaustedAndLeavesNothing) {
  const support::ScratchFolder scratch;
  const std::string& folder = scratch.path();
  const int code = InChild([&] {
    const std::string users = "0 " + std::to_string(::geteuid()) + " 1";
    const std::string groups = "0 " + std::to_string(::getegid()) + " 1";
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 77;
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << users;
    std::ofstream("/proc/self/gid_map") << groups;
    if (::mount("none", folder.c_str(), "tmpfs", 0, "size=16k") != 0) return 77;
    const auto written = WriteSafetensors(
        folder + "/a", {Source("a", ElementType::kU8, {100000}, std::string(100000, 'x'))});
    if (FilesIn(folder) != 0) return 2;
    const std::string value(static_cast<size_t>(3 * kDigestBlockBytes), 'v');
    const auto blocks = WriteSafetensorsBlocks(
        folder + "/b",
        {{.form = {"b", ElementType::kU8, {3 * kDigestBlockBytes}}, .data = value.data()}}, {},
        {.threads = 2});
    if (FilesIn(folder) != 0) return 3;
    if (blocks.status().code() != absl::StatusCode::kResourceExhausted) return 4;
    return written.status().code() == absl::StatusCode::kResourceExhausted ? 0 : 1;
  });
  if (code == 77) GTEST_SKIP() << "needs a user namespace to mount a small tmpfs";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace coxswain
