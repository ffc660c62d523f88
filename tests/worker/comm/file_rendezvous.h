// A rendezvous for ranks that are processes of one host: a file of a folder for each key.
#ifndef COXSWAIN_TESTS_WORKER_COMM_FILE_RENDEZVOUS_H_
#define COXSWAIN_TESTS_WORKER_COMM_FILE_RENDEZVOUS_H_

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "worker/comm/collectives.h"

namespace coxswain::comm {

class FileRendezvous : public Rendezvous {
 public:
  // Makes the folder. Ranks of one group name one, and no other group does.
  explicit FileRendezvous(std::string folder) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_);
  }

  absl::Status Set(const std::string& key, const std::string& value) override {
    const std::string path = PathOf(key), staged = absl::StrCat(path, ".", getpid());
    std::ofstream(staged, std::ios::binary) << value;
    std::filesystem::rename(staged, path);  // readers see all of it or nothing
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Get(const std::string& key,
                                  std::chrono::milliseconds timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (!std::filesystem::exists(PathOf(key))) {
      if (std::chrono::steady_clock::now() >= deadline) {
        return absl::DeadlineExceededError(
            absl::StrCat("key ", key, " was not set within ", timeout.count(), " ms"));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::ifstream in(PathOf(key), std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  }

 private:
  std::string PathOf(const std::string& key) const {
    return absl::StrCat(folder_, "/", absl::StrReplaceAll(key, {{"/", "_"}}));
  }

  const std::string folder_;
};

}  // namespace coxswain::comm

#endif  // COXSWAIN_TESTS_WORKER_COMM_FILE_RENDEZVOUS_H_
