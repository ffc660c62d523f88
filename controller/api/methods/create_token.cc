#include <optional>
#include <utility>

#include "common/access/principal.h"
#include "controller/access/tokens.h"
#include "controller/api/operations.h"
#include "controller/api/token_message.h"

namespace coxswain::api {

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

}  // namespace coxswain::api
