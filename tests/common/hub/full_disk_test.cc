// A download into a file system of its own that is too small.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "common/hub/download.h"
#include "tests/common/hub/hub_fixture.h"

namespace coxswain::hub {
namespace {

constexpr int kNoNamespace = 77;

// `test` in a process with namespaces of its own; 0 where it is as expected.
int InNamespace(const std::function<int()>& test) {
  const pid_t child = fork();
  if (child == 0) {
    const std::string users = "0 " + std::to_string(geteuid()) + " 1";
    const std::string groups = "0 " + std::to_string(getegid()) + " 1";
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) _exit(kNoNamespace);
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << users;
    std::ofstream("/proc/self/gid_map") << groups;
    _exit(test());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

bool MountSmall(const std::string& folder, const char* size) {
  std::filesystem::create_directories(folder);
  return mount("none", folder.c_str(), "tmpfs", 0, size) == 0;
}

absl::StatusOr<Snapshot> Pull(const Settings& settings, const DownloadOptions& options = {}) {
  return Download(settings, Model(), ResolveCommit(settings, Model())->commit, options);
}

bool NamesFolderAndNumbers(const absl::Status& status, const std::string& folder) {
  const std::string text(status.message());
  return absl::IsResourceExhausted(status) && text.find(folder) != std::string::npos &&
         text.find(" more, ") != std::string::npos && text.find(" are free") != std::string::npos;
}

// Invariant hub-4.
TEST(HubFullDiskTest, RoomIsLookedForBeforeTheFirstByte) {
  const int code = InNamespace([] {
    SmallHub hub;
    hub.PutModel();
    hub.Start();
    if (!MountSmall(hub.settings().cache, "size=400k")) return kNoNamespace;
    const absl::Status full = Pull(hub.settings()).status();
    if (!NamesFolderAndNumbers(full, hub.settings().cache)) return 1;
    return hub.server().counters().body_bytes == 0 ? 0 : 2;
  });
  if (code == kNoNamespace) GTEST_SKIP() << "needs a user namespace to mount a small tmpfs";
  EXPECT_EQ(code, 0);
}

// Invariant hub-4.
TEST(HubFullDiskTest, ADiskThatFillsUpOnTheWayLosesNothing) {
  const int code = InNamespace([] {
    SmallHub hub;
    hub.PutModel();
    hub.Start();
    const std::string cache = hub.settings().cache, other = cache + "/other";
    if (!MountSmall(cache, "size=1200k")) return kNoNamespace;
    int64_t came = 0;
    bool filled = false;
    const absl::Status full = Pull(hub.settings(), {.progress =
                                                        [&](const Progress& progress) {
                                                          came = progress.bytes;
                                                          if (!filled)
                                                            std::ofstream(other)
                                                                << std::string(900'000, 'x');
                                                          filled = true;
                                                        }})
                                  .status();
    if (!NamesFolderAndNumbers(full, cache)) return 1;
    std::filesystem::remove(other);
    const auto rest = Pull(hub.settings());
    if (!rest.ok()) return 2;
    if (rest->fetched_bytes > 772'003 - came) return 3;
    const std::string weights = support::ReadFile(rest->path + "/model.safetensors");
    return weights == Noise(SmallHub::kWeightBytes, 2) ? 0 : 4;
  });
  if (code == kNoNamespace) GTEST_SKIP() << "needs a user namespace to mount a small tmpfs";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace coxswain::hub
