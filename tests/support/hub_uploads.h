// What clients send to the test's Hub: repositories, branches, contents and commits.
#ifndef COXSWAIN_TESTS_SUPPORT_HUB_UPLOADS_H_
#define COXSWAIN_TESTS_SUPPORT_HUB_UPLOADS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tests/support/hub_repositories.h"

namespace coxswain::support {

struct HubReply {
  int status = 200;
  std::string body = {};   // JSON, also of an error
  std::string error = {};  // of a status above 299
  std::string code = {};   // X-Error-Code of it
  std::string etag = {};
};

// Keeps what it takes in the folder of HubRepositories; contents that no commit has lie in
// ROOT/.lfs. Thread-safe.
class HubUploads {
 public:
  // `served` gives what is served now; `changed` is called when the folder has become another.
  HubUploads(std::string root, std::function<std::shared_ptr<const HubRepositories>()> served,
             std::function<void()> changed);

  struct Places {
    std::string hub, cdn;    // URLs of the two servers
    int64_t part_bytes = 0;  // of contents that come in parts; 0: none does
  };

  // A POST of the Hub's API. `commits` counts those that were made.
  HubReply Post(const std::string& path, const std::string& body, const Places& places,
                int* commits);
  // A PUT of a content or of a part, which lies in the file `received` and is moved away.
  HubReply Put(const std::string& path, const std::string& received);
  // A name for what is being received.
  std::string NewFile();
  bool IsPrivate(const std::string& repository) const;  // "models/org/name"

 private:
  HubReply Create(const nlohmann::json& asked);
  HubReply Branch(const std::string& repository, const std::string& revision);
  HubReply Preupload(const std::string& repository, const std::string& revision,
                     const nlohmann::json& asked) const;
  HubReply Batch(const std::string& repository, const nlohmann::json& asked, const Places& places);
  HubReply Complete(const std::string& upload, const nlohmann::json& asked);
  HubReply Verify(const nlohmann::json& asked) const;
  HubReply Commit(const std::string& repository, const std::string& revision,
                  const std::string& lines, const Places& places, int* commits);
  std::string Content(const std::string& sha256) const;  // its file; empty: there is none

  const std::string root_;
  const std::function<std::shared_ptr<const HubRepositories>()> served_;
  const std::function<void()> changed_;
  mutable std::mutex mu_;
  int64_t names_ = 0;                                        // that were given
  std::map<std::string, std::map<int, std::string>> etags_;  // of parts, by upload
};

}  // namespace coxswain::support

#endif  // COXSWAIN_TESTS_SUPPORT_HUB_UPLOADS_H_
