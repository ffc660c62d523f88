// Bringing a file to the controller.
#ifndef COXSWAIN_CONTROLLER_CLI_CONNECT_UPLOAD_H_
#define COXSWAIN_CONTROLLER_CLI_CONNECT_UPLOAD_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "controller/cli/connect/client.h"

namespace coxswain::cli {

struct UploadedFile {
  std::string path;  // what a job writes
  std::string sha256;
  int64_t bytes = 0;
  int64_t sent_bytes = 0;  // by this call
};

struct UploadHooks {
  std::function<bool()> cancelled;
  // `there` of `bytes` are at the controller; `waits`: another process brings them.
  std::function<void(int64_t there, int64_t bytes, bool waits)> progress;
};

// Brings the file at `path`, under its name without folders. A part that is there already is not
// sent again. NotFound, InvalidArgument: `path` is no file, or an empty one. Cancelled. Errors of
// the controller, with its words.
absl::StatusOr<UploadedFile> UploadFile(Client* client, const std::string& path,
                                        const UploadHooks& hooks);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_CONNECT_UPLOAD_H_
