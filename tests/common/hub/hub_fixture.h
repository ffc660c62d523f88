// A small Hub and a client of it.
#ifndef COXSWAIN_TESTS_COMMON_HUB_HUB_FIXTURE_H_
#define COXSWAIN_TESTS_COMMON_HUB_HUB_FIXTURE_H_

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "common/hub/api/hub_settings.h"
#include "common/hub/api/repository.h"
#include "tests/support/hub_server.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::hub {

// Bytes that repeat nowhere soon, by `seed`.
inline std::string Noise(size_t bytes, uint64_t seed) {
  std::string noise(bytes, '\0');
  for (char& c : noise) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    c = static_cast<char>(seed >> 56);
  }
  return noise;
}

// Put files, then Start, then ask by settings().
class SmallHub {
 public:
  // Writes a file of revision `revision` of "models/org/name" or "datasets/...".
  void Put(const std::string& repository, const std::string& path, std::string_view bytes,
           const std::string& revision = "main") {
    const std::filesystem::path name = "hub/" + repository + "/@" + revision + "/" + path;
    std::filesystem::create_directories(std::filesystem::path(folder_.path()) / name.parent_path());
    folder_.Write(name.string(), bytes);
  }
  // A model whose weights come in several pieces.
  void PutModel(const std::string& id = "org/tiny") {
    Put("models/" + id, "config.json", "{}");
    Put("models/" + id, "tokenizer.json", Noise(70'000, 1));
    Put("models/" + id, "model.safetensors", Noise(kWeightBytes, 2));
    Put("models/" + id, "model.onnx", Noise(1000, 3));
    Put("models/" + id, "README.md", "# tiny\n");
  }
  static constexpr size_t kWeightBytes = 700'001;

  support::HubServer& Start() {
    server_ = std::make_unique<support::HubServer>(folder_.path() + "/hub");
    return *server_;
  }
  support::HubServer& server() { return *server_; }

  // Quick to give up, with pieces of 64 KiB.
  Settings settings() const {
    Settings settings;
    settings.endpoint = server_->endpoint();
    settings.cache = folder_.path() + "/cache";
    settings.limits.piece_bytes = 64 << 10;
    settings.limits.first_delay = std::chrono::milliseconds(1);
    settings.limits.attempts = 4;
    return settings;
  }
  const std::string& folder() const { return folder_.path(); }

 private:
  const support::ScratchFolder folder_;
  std::unique_ptr<support::HubServer> server_;
};

inline Repository Model(const std::string& id = "org/tiny",
                        const std::string& revision = kDefaultRevision) {
  return *MakeRepository(RepositoryType::kModel, id, revision);
}

}  // namespace coxswain::hub

#endif  // COXSWAIN_TESTS_COMMON_HUB_HUB_FIXTURE_H_
