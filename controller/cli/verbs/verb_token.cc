#include <memory>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/format.h"
#include "common/net/message_json.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/output.h"
#include "controller/cli/text/table.h"

namespace coxswain::cli {
namespace {

constexpr int64_t kHourMs = int64_t{3600} * 1000;
constexpr int64_t kMostUnits = 100 * 366 * 24;

struct CreateTokenArgs {
  std::string user;
  std::string role = "user";
  std::string expires = "30d";
  std::string output = "table";
};

// "30d", "12h", "never" (0).
absl::StatusOr<int64_t> LifetimeMs(const std::string& text) {
  if (text == "never") return 0;
  int64_t count = 0;
  const char unit = text.empty() ? '\0' : text.back();
  const bool number = !text.empty() && absl::SimpleAtoi(text.substr(0, text.size() - 1), &count);
  if (number && count > 0 && count <= kMostUnits && (unit == 'd' || unit == 'h')) {
    return count * kHourMs * (unit == 'd' ? 24 : 1);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--expires ", text, ": expected days or hours, e.g. 30d or 12h, or never"));
}

std::string StateOf(const v1::Token& token, int64_t now_unix_ms) {
  if (token.revoked_unix_ms() != 0) return "REVOKED";
  const bool expired = token.expires_unix_ms() != 0 && token.expires_unix_ms() <= now_unix_ms;
  return expired ? "EXPIRED" : "VALID";
}

std::string TimeOr(int64_t unix_ms, const char* none) {
  return unix_ms == 0 ? std::string(none) : FormatTime(unix_ms);
}

// The token alone on stdout, so that it can go into a file.
int RunCreate(Cox* cox, const CreateTokenArgs& args) {
  const absl::StatusOr<int64_t> lifetime = LifetimeMs(args.expires);
  if (!lifetime.ok()) return cox->Fail(lifetime.status());
  const auto made = cox->Server().CreateToken(args.user, args.role, *lifetime);
  if (!made.ok()) return cox->Fail(made.status());
  if (IsStructured(args.output)) {
    PrintStructured(MessageJson(*made), args.output, cox->out());
    return kOk;
  }
  cox->out() << OneLine(made->secret()) << "\n";
  cox->err() << "token " << OneLine(made->token().id()) << " of " << args.role << " " << args.user
             << ", valid until " << TimeOr(made->token().expires_unix_ms(), "it is revoked")
             << ". It is shown only once: keep it in a file of mode 0600, for cox --token-file\n";
  return kOk;
}

int RunList(Cox* cox, const std::string& output) {
  const auto tokens = cox->Server().ListTokens();
  if (!tokens.ok()) return cox->Fail(tokens.status());
  if (IsStructured(output)) {
    PrintStructured(MessageJson(*tokens), output, cox->out());
    return kOk;
  }
  Table table({"ID", "USER", "ROLE", "STATE", "CREATED", "EXPIRES"});
  for (const v1::Token& token : tokens->tokens()) {
    table.Add({token.id(), token.user(), token.role(), StateOf(token, cox->now_unix_ms()),
               FormatTime(token.created_unix_ms()), TimeOr(token.expires_unix_ms(), "never")});
  }
  cox->out() << table.Text();
  return kOk;
}

int RunRevoke(Cox* cox, const std::string& id) {
  const auto revoked = cox->Server().RevokeToken(id);
  if (!revoked.ok()) return cox->Fail(revoked.status());
  cox->out() << "revoked token " << id << " of " << OneLine(revoked->token().user()) << "\n";
  return kOk;
}

void AddCreate(CLI::App* token, Cox* cox) {
  auto args = std::make_shared<CreateTokenArgs>();
  Verb(token, "create", "Make a token and print it once")
      .RequiredText("--user", &args->user, "User who owns the jobs that it submits")
      .Word("--role", &args->role, {"user", "operator"},
            "user: own jobs; operator: all jobs, workers and tokens")
      .Text("--expires", &args->expires,
            "Lifetime in days or hours (30d, 12h), or never (default: 30d)")
      .Output(&args->output, {"table", "json", "yaml"})
      .Run(cox, [cox, args] { return RunCreate(cox, *args); });
}

void AddList(CLI::App* token, Cox* cox) {
  auto output = std::make_shared<std::string>("table");
  Verb(token, "list", "List tokens, without their secrets")
      .Output(output.get(), {"table", "json", "yaml"})
      .Run(cox, [cox, output] { return RunList(cox, *output); });
}

void AddRevoke(CLI::App* token, Cox* cox) {
  auto id = std::make_shared<std::string>();
  Verb(token, "revoke", "Revoke a token: nobody gets in with it any more")
      .RequiredText("id", id.get(), "Id in cox token list")
      .Run(cox, [cox, id] { return RunRevoke(cox, *id); });
}

}  // namespace

void AddToken(CLI::App* app, Cox* cox) {
  Verb verb(app, "token", "Make, list and revoke tokens of users and operators");
  verb.RequireSubverb();
  AddCreate(verb.app(), cox);
  AddList(verb.app(), cox);
  AddRevoke(verb.app(), cox);
}

}  // namespace coxswain::cli
