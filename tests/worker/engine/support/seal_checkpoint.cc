#include "tests/worker/engine/support/seal_checkpoint.h"

#include <filesystem>
#include <vector>

#include "common/checkpoint/manifest_files.h"
#include "common/files/durable_file.h"
#include "common/files/read_file.h"
#include "nlohmann/json.hpp"

namespace coxswain::engine {

void SealCheckpoint(const std::string& directory) {
  std::vector<ManifestFile> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() != ".safetensors") continue;
    files.push_back(FileInBlocks(entry.path().filename().string(),
                                 DigestsOf(ReadFile(entry.path().string()).value())));
  }
  const nlohmann::json manifest = {{"format", kManifestFormat},
                                   {"files", ManifestFilesJson(files)}};
  WriteFileDurably(directory + "/" + kManifestName, manifest.dump()).IgnoreError();
}

}  // namespace coxswain::engine
