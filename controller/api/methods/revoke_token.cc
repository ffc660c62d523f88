#include <optional>

#include "absl/strings/str_cat.h"
#include "controller/access/tokens.h"
#include "controller/api/operations.h"
#include "controller/api/token_message.h"

namespace coxswain::api {

// One that is revoked stays revoked at the time when it first was.
void RevokeToken(Context& context, const v1::RevokeTokenRequest& request,
                 Reply<v1::RevokeTokenResponse> reply) {
  std::optional<store::TokenRow> row = context.tokens->Find(request.id());
  if (!row) {
    reply(absl::NotFoundError(
        absl::StrCat("no token '", request.id(), "'; cox token list shows them")));
    return;
  }
  if (row->revoked_unix_ms == 0) {
    row->revoked_unix_ms = context.deps.loop->clock().UnixMs();
    driver::Journal* const journal = context.deps.journal;
    const absl::Status stored = journal->Transact([&] {
      journal->Add(*row);
      return absl::OkStatus();
    });
    if (!stored.ok()) {
      reply(stored);
      return;
    }
    context.tokens->Put(*row);
  }
  v1::RevokeTokenResponse response;
  *response.mutable_token() = TokenMessage(*row);
  reply(std::move(response));
}

}  // namespace coxswain::api
