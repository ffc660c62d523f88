#include "common/files/read_file.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <future>
#include <string>

#include <gtest/gtest.h>

#include "common/files/regular_file.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

class ReadFileTest : public testing::Test {
 protected:
  std::string In(const std::string& name) const { return scratch_.path() + "/" + name; }
  // A file that says it has this many bytes and takes no room.
  std::string Sparse(const std::string& name, int64_t bytes) const {
    const std::string path = scratch_.Write(name, "");
    EXPECT_EQ(truncate(path.c_str(), bytes), 0);
    return path;
  }

  const support::ScratchFolder scratch_;
};

TEST_F(ReadFileTest, GivesEveryByte) {
  std::string bytes("\0\r\n\xff", 4);
  for (int i = 0; i < 20; ++i) bytes += std::string(12345, static_cast<char>(i));
  const std::string path = scratch_.Write("bytes", bytes);
  EXPECT_EQ(ReadFile(path).value(), bytes);
  EXPECT_EQ(ReadFileOrPipe(path).value(), bytes);
  EXPECT_EQ(ReadFile(scratch_.Write("none", "")).value(), "");
}

TEST_F(ReadFileTest, ReadsWhatHasNoSize) {
  EXPECT_NE(ReadFile("/proc/self/status").value().find("State:"), std::string::npos);
}

TEST_F(ReadFileTest, NamesWhatItCannotRead) {
  const absl::Status absent = ReadFile(In("nowhere")).status();
  EXPECT_TRUE(absl::IsNotFound(absent));
  EXPECT_EQ(absent.message(), "cannot read " + In("nowhere") + ": No such file or directory");
}

// A FIFO that nobody writes to keeps who opens it waiting.
TEST_F(ReadFileTest, RefusesAtOnceWhatIsNoFile) {
  const std::string fifo = In("fifo"), socket_path = In("socket"), link = In("link");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  ASSERT_EQ(symlink(fifo.c_str(), link.c_str()), 0);
  const Descriptor listener(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  socket_path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const std::pair<std::string, std::string> odd[] = {{fifo, "a FIFO"},
                                                     {link, "a FIFO"},
                                                     {socket_path, "a socket"},
                                                     {"/dev/zero", "a device"},
                                                     {scratch_.path(), "a folder"}};
  for (const auto& [path, kind] : odd) {
    const absl::Status refused = ReadFile(path).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_EQ(refused.message(), "cannot read " + path + ": it is " + kind + ", no file");
  }
}

TEST_F(ReadFileTest, WaitsForAPipeWhereThatIsAskedFor) {
  const std::string fifo = In("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  auto read = std::async([&] { return ReadFileOrPipe(fifo); });
  Descriptor end(open(fifo.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(write(end.get(), "job", 3), 3);
  close(end.Release());
  EXPECT_EQ(read.get().value(), "job");
}

TEST_F(ReadFileTest, RefusesMoreThanTheBoundAndSaysBothSizes) {
  const std::string path = Sparse("tokenizer.json", int64_t{64} << 30);
  const absl::Status refused = ReadFile(path, kMaxTokenizerBytes).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_EQ(refused.message(),
            path + " has 68719476736 bytes, at most 268435456 are read; is it the right file?");
  EXPECT_EQ(ReadFile(Sparse("fits", 1000), 1000)->size(), 1000);
  EXPECT_FALSE(ReadFile(Sparse("one_more", 1001), 1000).ok());
  // What tells no size is bounded as it is read.
  EXPECT_TRUE(absl::IsInvalidArgument(ReadFile("/proc/self/status", 10).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadFileOrPipe("/dev/zero", 1 << 20).status()));
}

TEST_F(ReadFileTest, RegularFileReadsFromAnywhereToItsEnd) {
  const RegularFile file = RegularFile::Open(scratch_.Write("bytes", "0123456789")).value();
  EXPECT_EQ(file.bytes(), 10);
  std::string out(4, ' ');
  EXPECT_EQ(file.ReadAt(3, 4, out.data()).value(), 4);
  EXPECT_EQ(out, "3456");
  EXPECT_EQ(file.ReadAt(8, 4, out.data()).value(), 2);
  EXPECT_EQ(file.ReadAt(20, 4, out.data()).value(), 0);
}

}  // namespace
}  // namespace coxswain
