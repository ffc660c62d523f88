// Tokens of users: made, listed, revoked.
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/access/principal.h"
#include "controller/access/tokens.h"
#include "controller/api/operations.h"
#include "controller/store/store.h"

namespace coxswain::api {
namespace {

// A token as its operators see it: all but what lets in.
v1::Token TokenMessage(const store::TokenRow& row) {
  v1::Token token;
  token.set_id(row.id);
  token.set_user(row.user);
  token.set_role(row.role);
  token.set_created_unix_ms(row.created_unix_ms);
  token.set_expires_unix_ms(row.expires_unix_ms);
  token.set_revoked_unix_ms(row.revoked_unix_ms);
  return token;
}

}  // namespace

void CreateToken(Context& context, const v1::CreateTokenRequest& request,
                 Reply<v1::CreateTokenResponse> reply) {
  const access::Principal owner{.role = access::ParseRole(request.role()).value(),
                                .name = request.user()};
  access::DrawnToken drawn =
      access::DrawToken(owner, context.deps.loop->clock().UnixMs(), request.lifetime_ms());
  driver::Journal* const journal = context.deps.journal;
  const absl::Status stored = journal->Transact([&] {
    journal->Add(drawn.row);
    return absl::OkStatus();
  });
  if (!stored.ok()) {
    reply(stored);
    return;
  }
  context.tokens->Put(drawn.row);
  v1::CreateTokenResponse response;
  *response.mutable_token() = TokenMessage(drawn.row);
  response.set_secret(std::move(drawn.token));
  reply(std::move(response));
}

void ListTokens(Context& context, const v1::ListTokensRequest& request,
                Reply<v1::ListTokensResponse> reply) {
  v1::ListTokensResponse response;
  for (const store::TokenRow& row : context.tokens->All()) {
    *response.add_tokens() = TokenMessage(row);
  }
  reply(std::move(response));
}

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
