#include "worker/agent/mapped_tokens.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/read_file.h"
#include "common/logging.h"
#include "common/status_macros.h"

namespace coxswain::agent {
namespace {

bool SeesNonce(const v1::TokenStores& offered) {
  const absl::StatusOr<std::string> found = ReadFile(offered.nonce_path());
  return found.ok() && *found == offered.nonce();
}

// The documents were verified by the controller, and the nonce says that they are the same bytes:
// the trailer alone is compared, so that a store of any size is mapped at once.
absl::StatusOr<std::unique_ptr<data::TokenStore>> Map(const v1::TokenStoreFile& file) {
  ASSIGN_OR_RETURN(std::unique_ptr<data::TokenStore> store, data::TokenStore::Open(file.path()));
  if (store->file_bytes() == file.bytes() && store->fingerprint() == file.fingerprint()) {
    return store;
  }
  return absl::DataLossError(absl::StrCat(
      "token store ", file.path(), " has ", store->file_bytes(), " bytes and fingerprint ",
      absl::Hex(store->fingerprint()), " here, the controller mapped one of ", file.bytes(),
      " bytes and fingerprint ", absl::Hex(file.fingerprint()),
      ": the file was replaced while the job ran. Remove it and resume the job to have it "
      "rebuilt"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const MappedTokens>> MapTokens(const v1::TokenStores& offered) {
  if (offered.train().path().empty()) return nullptr;
  if (!SeesNonce(offered)) {
    log::Info(
        "commands will carry tokens: the controller's token stores are not on storage that "
        "this worker sees",
        {{"file", offered.nonce_path()}});
    return nullptr;
  }
  auto mapped = std::make_shared<MappedTokens>();
  ASSIGN_OR_RETURN(mapped->train, Map(offered.train()));
  if (!offered.eval().path().empty()) {
    ASSIGN_OR_RETURN(mapped->eval, Map(offered.eval()));
  }
  return mapped;
}

}  // namespace coxswain::agent
