// cox config, where each setting of a connection comes from, and what is said when none is made.
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "controller/cli/connect/cannot_reach.h"
#include "controller/cli/connect/connection.h"
#include "controller/cli/connect/contexts.h"
#include "tests/controller/cli/run_cox.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::cli {
namespace {

using Json = nlohmann::json;

constexpr const char* kVariables[] = {"COXSWAIN_SERVER",  "COXSWAIN_TLS_CA", "COXSWAIN_TLS_CERT",
                                      "COXSWAIN_TLS_KEY", "COXSWAIN_TOKEN",  "COXSWAIN_TOKEN_FILE",
                                      "COXSWAIN_CONTEXT"};

bool Says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A user whose contexts lie in a folder of the test, without a variable of ours.
class ConfigTest : public testing::Test {
 protected:
  ConfigTest() {
    setenv("XDG_CONFIG_HOME", folder_.path().c_str(), 1);
    setenv("XDG_STATE_HOME", folder_.path().c_str(), 1);
    for (const char* name : kVariables) unsetenv(name);
  }
  ~ConfigTest() override {
    for (const char* name : kVariables) unsetenv(name);
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("XDG_STATE_HOME");
  }

  static Ran Config(std::vector<std::string> args) {
    args.insert(args.begin(), "config");
    return RunInProcess(args);
  }
  static Connection Found(const ConnectionFlags& flags = {}) {
    const auto found = FindConnection(flags);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.value_or(Connection());
  }
  std::string File(const std::string& name) const { return folder_.Write(name, "x\n"); }
  std::string path() const { return folder_.path() + "/coxswain/config.yaml"; }

  const support::ScratchFolder folder_;
};

TEST_F(ConfigTest, ContextsAreMadeUsedListedAndDeleted) {
  const std::string ca = File("ca.crt"), cert = File("tls.crt"), key = File("tls.key");
  EXPECT_EQ(Config({"get-contexts"}).err, "no contexts\n");
  EXPECT_EQ(Config({"current-context"}).code, 4);
  const Ran made = Config({"set-context", "prod", "--server", "cox.example:7070", "--ca", ca,
                           "--cert", cert, "--key", key});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.out, "context prod made\n");
  EXPECT_EQ(made.err, "use it with: cox config use-context prod\n");
  EXPECT_EQ(Config({"set-context", "lab", "--server", "10.0.0.5:7070", "--tls-ca", ca}).code, 0);
  EXPECT_EQ(Config({"use-context", "prod"}).out, "context prod is in use\n");
  EXPECT_EQ(Config({"current-context"}).out, "prod\n");
  EXPECT_EQ(Config({"get-contexts", "-o", "name"}).out, "prod\nlab\n");
  const Json list = Json::parse(Config({"get-contexts", "-o", "json"}).out)["contexts"];
  EXPECT_EQ(list[0]["current"], true);
  EXPECT_EQ(list[0]["cert"], cert);
  EXPECT_EQ(list[1]["ca"], ca);
  EXPECT_EQ(Config({"set-context", "prod", "--server", "other:1"}).out, "context prod changed\n");
  EXPECT_EQ(Found().server, "other:1");
  EXPECT_EQ(Found().tls.ca, ca) << "what is not given stays";
  EXPECT_EQ(Config({"set-context", "prod", "--cert", "", "--key", ""}).code, 0);
  EXPECT_EQ(Found().tls.cert, "");
  EXPECT_EQ(Config({"delete-context", "prod"}).out, "context prod deleted\n");
  EXPECT_EQ(Config({"current-context"}).code, 4);
  EXPECT_EQ(Config({"use-context", "lab"}).code, 0);
  EXPECT_EQ(Config({"use-context", "--none"}).out, "no context is in use\n");
  EXPECT_EQ(Found().server, "127.0.0.1:7070");
}

TEST_F(ConfigTest, TheFileIsItsUsersAlone) {
  EXPECT_EQ(Config({"set-context", "a", "--server", "h:1"}).code, 0);
  struct stat found {};
  ASSERT_EQ(stat(path().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  EXPECT_EQ(support::ReadFile(path()), "contexts:\n- name: a\n  server: \"h:1\"\n");
  std::filesystem::permissions(path(), std::filesystem::perms(0622));
  const Ran ran = Config({"get-contexts"});
  EXPECT_EQ(ran.code, 5);
  EXPECT_TRUE(Says(ran.err, path() + " can be written by others")) << ran.err;
}

TEST_F(ConfigTest, MistakesChangeNothingAndAreNamed) {
  EXPECT_EQ(Config({"set-context", "a", "--server", "h:1"}).code, 0);
  const std::string before = support::ReadFile(path());
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"set-context", "b"}, "context b is new: give --server HOST:PORT"},
      {{"set-context", "b", "--server", "nonsense"}, "nonsense"},
      {{"set-context", "b", "--server", "h:1", "--ca", "/nowhere/ca"},
       "--ca /nowhere/ca: there is"},
      {{"set-context", "a", "--cert", path()}, "a certificate goes with its key"},
      {{"set-context", "a b", "--server", "h:1"}, "holds letters, digits"},
      {{"use-context", "b"}, "no context 'b'"},
      {{"use-context"}, "give the name of a context, or --none"},
      {{"delete-context", "b"}, "there is a."},
      {{"sett-context", "b"}, "did you mean 'set-context'?"},
  };
  for (const auto& [args, message] : cases) {
    const Ran ran = Config(args);
    EXPECT_NE(ran.code, 0) << message;
    EXPECT_TRUE(Says(ran.err, message)) << ran.err;
  }
  EXPECT_EQ(support::ReadFile(path()), before);
}

TEST_F(ConfigTest, AFileThatCannotBeReadIsNamedWithItsLine) {
  std::filesystem::create_directories(folder_.path() + "/coxswain");
  folder_.Write("coxswain/config.yaml", "contexts:\n- name: a\n  sever: h:1\n");
  std::filesystem::permissions(path(), std::filesystem::perms(0600));
  const Ran config = Config({"get-contexts"});
  EXPECT_EQ(config.code, 2);
  EXPECT_TRUE(Says(config.err, path() + ":3: unknown key sever of a context")) << config.err;
  EXPECT_TRUE(Says(RunInProcess({"get"}).err, path() + ":3: ")) << "a call says so too";
}

TEST_F(ConfigTest, FlagThenEnvironmentThenContextThenDefault) {
  EXPECT_EQ(Found().server, "127.0.0.1:7070");
  const std::string ca = File("ca"), cert = File("cert"), key = File("key"), token = File("token");
  ASSERT_EQ(Config({"set-context", "a", "--server", "a:1", "--ca", ca, "--cert", cert, "--key", key,
                    "--token-file", token})
                .code,
            0);
  ASSERT_EQ(Config({"set-context", "b", "--server", "b:1"}).code, 0);
  ASSERT_EQ(Config({"use-context", "a"}).code, 0);
  EXPECT_EQ(Found().server, "a:1");
  EXPECT_EQ(Found().context, "a");
  EXPECT_EQ(Found().tls, (TlsFiles{cert, key, ca}));
  EXPECT_EQ(Found().token_file, token);
  setenv("COXSWAIN_TLS_CA", "/env/ca", 1);
  setenv("COXSWAIN_TLS_CERT", "/env/cert", 1);
  setenv("COXSWAIN_TOKEN_FILE", "/env/token", 1);
  EXPECT_EQ(Found().tls, (TlsFiles{"/env/cert", "", "/env/ca"}))
      << "a key goes with its certificate";
  EXPECT_EQ(Found().token_file, "/env/token");
  setenv("COXSWAIN_TOKEN", "secret", 1);
  EXPECT_EQ(Found().token, "secret");
  EXPECT_EQ(Found().token_file, "");
  const ConnectionFlags flags = {
      .server = "", .tls = {"/f/cert", "/f/key", "/f/ca"}, .token_file = "/f/token", .context = ""};
  EXPECT_EQ(Found(flags).tls, flags.tls);
  EXPECT_EQ(Found(flags).token_file, "/f/token");
  EXPECT_EQ(Found(flags).token, "");
  setenv("COXSWAIN_CONTEXT", "b", 1);
  EXPECT_EQ(Found().server, "b:1");
  setenv("COXSWAIN_SERVER", "env:1", 1);
  EXPECT_EQ(Found().server, "env:1");
  EXPECT_EQ(Found({.server = "flag:1", .tls = {}, .token_file = "", .context = ""}).server,
            "flag:1");
}

TEST_F(ConfigTest, AContextThatAFlagNamesStandsBeforeTheEnvironment) {
  const std::string ca = File("ca"), token = File("token");
  ASSERT_EQ(Config({"set-context", "a", "--server", "a:1", "--ca", ca, "--token-file", token}).code,
            0);
  setenv("COXSWAIN_SERVER", "env:1", 1);
  setenv("COXSWAIN_TLS_CA", "/env/ca", 1);
  setenv("COXSWAIN_TOKEN", "secret", 1);
  const Connection found = Found({.server = "", .tls = {}, .token_file = "", .context = "a"});
  EXPECT_EQ(found.server, "a:1");
  EXPECT_EQ(found.tls.ca, ca);
  EXPECT_EQ(found.token_file, token);
  EXPECT_EQ(found.token, "");
  EXPECT_FALSE(FindConnection({.server = "", .tls = {}, .token_file = "", .context = "none"}).ok());
}

TEST_F(ConfigTest, CertificatesAndTokenOfAContextGoToItsServerAlone) {
  const std::string ca = File("ca"), token = File("token");
  ASSERT_EQ(Config({"set-context", "a", "--server", "a:1", "--ca", ca, "--token-file", token}).code,
            0);
  ASSERT_EQ(Config({"use-context", "a"}).code, 0);
  const Connection other = Found({.server = "b:1", .tls = {}, .token_file = "", .context = ""});
  EXPECT_EQ(other.server, "b:1");
  EXPECT_EQ(other.tls.ca, "");
  EXPECT_EQ(other.token_file, "");
  EXPECT_EQ(other.context, "");
  EXPECT_EQ(Found({.server = "a:1", .tls = {}, .token_file = "", .context = ""}).tls.ca, ca);
}

TEST_F(ConfigTest, CallsGoToTheContextInUse) {
  FakeJobs fake;
  fake.AddJob("tiny", v1::JOB_STATE_QUEUED);
  const std::string token = folder_.Write("token", std::string(40, 't'));
  std::filesystem::permissions(token, std::filesystem::perms(0600));
  ASSERT_EQ(Config({"set-context", "a", "--server", fake.address(), "--token-file", token}).code,
            0);
  ASSERT_EQ(Config({"use-context", "a"}).code, 0);
  const Ran ran = RunInProcess({"get", "-o", "name"});
  EXPECT_EQ(ran.out, "tiny-000001\n") << ran.err;
  EXPECT_EQ(fake.shown_token(), "Bearer " + std::string(40, 't'));
}

Connection Tls(const std::string& cert) {
  Connection connection;
  connection.server = "cox.example:7070";
  connection.tls = {cert, cert, "/tls/ca.crt"};
  connection.context = "prod";
  return connection;
}

Connection Plaintext() {
  Connection connection;
  connection.server = "127.0.0.1:7070";
  return connection;
}

TEST(CannotReachTest, SaysAddressReasonAndWhatToDo) {
  EXPECT_EQ(CannotReach(Plaintext(), "Socket closed"),
            "cannot reach the controller at 127.0.0.1:7070 in plaintext: Socket closed. If the "
            "controller has ended, start it again (`cox up`). If it speaks TLS, give --tls-ca, and "
            "--tls-cert and --tls-key where it asks for them, or a context that has them");
  const std::string over_tls = CannotReach(Tls("/tls/tls.crt"), "Socket closed");
  EXPECT_TRUE(Says(over_tls,
                   "at cox.example:7070 (context prod) over TLS: Socket closed. It may not "
                   "accept the certificate in /tls/tls.crt"))
      << over_tls;
  const std::tuple<Connection, std::string, std::string> cases[] = {
      {Plaintext(), "connect: Connection refused", "Nothing listens there"},
      {Plaintext(), "DNS resolution failed for x", "No such host is known here"},
      {Plaintext(), "Trying to connect an http1.x server", "a port of web pages"},
      {Tls(""), "Socket closed", "give --tls-cert and --tls-key"},
      {Tls(""), "SSL_ERROR_SSL: CERTIFICATE_VERIFY_FAILED", "The CA in /tls/ca.crt did not sign"},
      {Tls(""), "routines::certificate verify failed", "The CA in /tls/ca.crt did not sign"},
      {Tls(""), "Hostname Verification Check failed.", "for another name than that in cox.example"},
      {Tls(""), "ssl3_get_record:wrong version number", "It does not speak TLS"},
  };
  for (const auto& [connection, reason, advice] : cases) {
    EXPECT_TRUE(Says(CannotReach(connection, reason), advice)) << CannotReach(connection, reason);
  }
}

}  // namespace
}  // namespace coxswain::cli
