#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/access/door.h"
#include "common/access/join_proof.h"
#include "common/access/join_token.h"
#include "common/access/local_secrets.h"
#include "common/access/method_table.h"
#include "common/access/secret_file.h"
#include "coxswain/v1/jobs_service.pb.h"
#include "coxswain/v1/registry_service.pb.h"
#include "coxswain/v1/relay_service.pb.h"
#include "coxswain/v1/worker_service.pb.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::access {
namespace {

using google::protobuf::FileDescriptor;

constexpr char kSecret[] = "0123456789abcdef0123456789abcdef";
constexpr char kOther[] = "0123456789abcdef0123456789abcdee";

TEST(PrincipalTest, AUriNamesARoleAndAUserHasAName) {
  EXPECT_EQ(PrincipalOfUri("coxswain://role/worker")->role, Role::kWorker);
  const Principal ann = *PrincipalOfUri("coxswain://role/user/ann@example.org");
  EXPECT_EQ(ToText(ann), "user ann@example.org");
  for (const char* wrong :
       {"coxswain://role/", "coxswain://role/admin", "coxswain://role/user",
        "coxswain://role/user/", "coxswain://role/user/a/b", "coxswain://role/operator/a b"}) {
    EXPECT_EQ(PrincipalOfUri(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

// Invariant access-1.
TEST(MethodTableTest, EveryMethodOfEveryServiceHasARowAndNoOtherHas) {
  std::set<std::string> methods, rows;
  for (const FileDescriptor* file :
       {v1::SubmitRequest::descriptor()->file(), v1::RegisterRequest::descriptor()->file(),
        v1::HostCommands::descriptor()->file(), v1::Command::descriptor()->file()}) {
    ASSERT_EQ(file->service_count(), 1) << file->name();
    const auto& service = *file->service(0);
    for (int i = 0; i < service.method_count(); ++i) {
      const auto& method = *service.method(i);
      const std::string name = absl::StrCat(service.name(), ".", method.name());
      methods.insert(name);
      const MethodRow* row = FindMethod(name);
      ASSERT_NE(row, nullptr) << name << ": say in common/access/method_table.cc who may call it";
      const bool names_job =
          service.name() == "Jobs" && method.input_type()->FindFieldByName("job") != nullptr;
      EXPECT_EQ(row->own_job, names_job) << name;
    }
  }
  for (const MethodRow& row : MethodTable()) rows.insert(std::string(row.method));
  EXPECT_EQ(rows, methods);
  EXPECT_EQ(rows.size(), MethodTable().size()) << "a row stands there twice";
}

TEST(MethodTableTest, ARefusalNamesRoleAndMethod) {
  EXPECT_TRUE(Authorize({.role = Role::kUser, .name = "ann"}, "Jobs.Submit").ok());
  const absl::Status refused = Authorize({.role = Role::kWorker}, "Jobs.Submit");
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(refused.message(), "worker may not call Jobs.Submit: it is for role user or operator");
  EXPECT_FALSE(Authorize({.role = Role::kOperator}, "Jobs.NoSuchMethod").ok());
}

// Invariant access-2.
TEST(JoinProofTest, AProofIsOfOneSecretRoleAndTime) {
  const std::string proof = JoinProof({kSecret}, Role::kController, 1000);
  EXPECT_EQ(proof.find(kSecret), std::string::npos);
  EXPECT_EQ(CheckJoinProof({kSecret}, proof, 1000 + kMostSkewSeconds)->role, Role::kController);
  std::string of_worker = proof;
  of_worker.replace(0, std::string("controller").size(), "worker");
  for (const auto& [secret, text, now] :
       {std::tuple(kOther, proof, 1000), std::tuple("", proof, 1000),
        std::tuple(kSecret, of_worker, 1000),
        std::tuple(kSecret, proof, 1001 + static_cast<int>(kMostSkewSeconds)),
        std::tuple(kSecret, JoinProof({kSecret}, Role::kOperator, 1000), 1000),
        std::tuple(kSecret, std::string("controller 1000"), 1000),
        std::tuple(kSecret, std::string(), 1000)}) {
    EXPECT_EQ(CheckJoinProof({secret}, text, now).status().code(),
              absl::StatusCode::kUnauthenticated)
        << text;
  }
}

// Invariant access-3.
TEST(SecretFileTest, ASecretIsItsUsersAlone) {
  const support::ScratchFolder folder;
  const std::string path = folder.path() + "/secret";
  const std::string secret = *ReadOrDrawSecret(path);
  EXPECT_EQ(secret.size(), 64u);
  EXPECT_EQ(*ReadOrDrawSecret(path), secret);
  struct stat found {};
  ASSERT_EQ(stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  const absl::Status open = ReadSecret(path).status();
  EXPECT_EQ(open.code(), absl::StatusCode::kPermissionDenied) << open;
  EXPECT_NE(open.message().find(path), absl::string_view::npos);
  EXPECT_EQ(open.message().find(secret), absl::string_view::npos);
  ASSERT_TRUE(WriteSecret(path, "too short").ok());
  EXPECT_EQ(ReadSecret(path).status().code(), absl::StatusCode::kInvalidArgument);
}

class LocalSecretsTest : public testing::Test {
 protected:
  LocalSecretsTest() { setenv("COXSWAIN_RUNTIME_DIR", root_.c_str(), 1); }
  ~LocalSecretsTest() override { unsetenv("COXSWAIN_RUNTIME_DIR"); }
  const support::ScratchFolder folder_;
  const std::string root_ = folder_.path() + "/run";
};

TEST_F(LocalSecretsTest, AControllersSecretsAreFoundByItsPort) {
  EXPECT_EQ(FindLocalSecret(7070, kJoinToken).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(LeaveLocalSecret(7070, kJoinToken, kSecret).ok());
  EXPECT_EQ(*FindLocalSecret(7070, kJoinToken), kSecret);
  ASSERT_TRUE(LeaveLocalSecret(7070, kJoinToken, kOther).ok());
  EXPECT_EQ(*FindLocalSecret(7070, kJoinToken), kOther);
  JoinToken token("", "127.0.0.1:7070");
  EXPECT_EQ(token.Held(), std::vector<std::string>{kOther});
  EXPECT_EQ(JoinToken("", "127.0.0.1.example.com:7070").Held(), std::vector<std::string>());
  RemoveLocalSecrets(7070);
  EXPECT_EQ(FindLocalSecret(7070, kJoinToken).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(token.Held(), std::vector<std::string>{kOther}) << "what was read stays in force";
}

// Whichever side has the new one first, and while one has it alone.
TEST_F(LocalSecretsTest, AJoinTokenIsReplacedWhileProcessesLive) {
  const std::string files[] = {folder_.path() + "/controller", folder_.path() + "/worker"};
  for (const std::string& file : files) ASSERT_TRUE(WriteSecret(file, kSecret).ok());
  JoinToken controller(files[0], ""), worker(files[1], "");
  const auto agree = [&] {
    const std::string there = JoinProof(controller.Held(), Role::kController, 1000);
    const std::string back = JoinProof(worker.Held(), Role::kWorker, 1000);
    return CheckJoinProof(worker.Held(), there, 1000).ok() &&
           CheckJoinProof(controller.Held(), back, 1000).ok();
  };
  EXPECT_TRUE(agree());
  for (const std::string& file : files) {
    ASSERT_TRUE(WriteSecret(file, kOther).ok());
    EXPECT_TRUE(agree()) << file;
  }
  EXPECT_EQ(controller.Held(), (std::vector<std::string>{kOther, kSecret}));
  EXPECT_EQ(JoinToken(files[0], "").Held(), std::vector<std::string>{kOther});
}

// Invariant access-3.
TEST_F(LocalSecretsTest, AFolderThatOthersMayEnterIsNotTaken) {
  ASSERT_TRUE(LeaveLocalSecret(7070, kJoinToken, kSecret).ok());
  ASSERT_EQ(chmod(root_.c_str(), 0755), 0);
  EXPECT_EQ(FindLocalSecret(7070, kJoinToken).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_FALSE(LeaveLocalSecret(7070, kJoinToken, kSecret).ok());
  std::filesystem::rename(root_, root_ + "-real");
  ASSERT_EQ(chmod((root_ + "-real").c_str(), 0700), 0);
  std::filesystem::create_directory_symlink(root_ + "-real", root_);
  EXPECT_EQ(FindLocalSecret(7070, kJoinToken).status().code(), absl::StatusCode::kPermissionDenied);
}

class DoorTest : public testing::Test {
 protected:
  static Door MakeDoor() {
    return Door({.open = false,
                 .join_tokens = [] { return std::vector<std::string>{kSecret}; },
                 .bearer = [](const std::string& token) -> absl::StatusOr<Principal> {
                   if (token == "ann's") return Principal{.role = Role::kUser, .name = "ann"};
                   return absl::UnauthenticatedError("not known");
                 }});
  }
  static std::string ProofOf(Role role) {
    return kJoin + JoinProof({kSecret}, role, time(nullptr));
  }
  static absl::StatusCode CodeOf(const CallCredentials& call, const char* method) {
    return MakeDoor().Admit(call, method).status().code();
  }
};

// Invariant access-4.
TEST_F(DoorTest, ACertificateDecidesAndElseTheToken) {
  EXPECT_EQ(CodeOf({.peer = "ipv4:192.0.2.1:4000"}, "Jobs.Get"),
            absl::StatusCode::kUnauthenticated);
  for (const char* here : {"ipv4:127.0.0.1:4000", "ipv6:%5B::1%5D:4000"}) {
    EXPECT_EQ(CodeOf({.peer = here}, "Jobs.Get"), absl::StatusCode::kPermissionDenied);
    EXPECT_EQ(CodeOf({.peer = here, .authorization = "Bearer bob's"}, "Jobs.Get"),
              absl::StatusCode::kUnauthenticated);
  }
  EXPECT_EQ(CodeOf({.authorization = "Bearer ann's"}, "Jobs.Get"), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOf({.authorization = "Bearer bob's"}, "Jobs.Get"),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(CodeOf({.authorization = "Basic ann's"}, "Jobs.Get"),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(
      CodeOf({.uris = {"coxswain://role/supervisor"}, .authorization = "Bearer ann's"}, "Jobs.Get"),
      absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(CodeOf({.uris = {"coxswain://role/operator"}}, "Jobs.Cordon"), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOf({.uris = {"coxswain://role/operator"}}, "Registry.Register"),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(CodeOf({.uris = {"coxswain://role/operator", "coxswain://role/worker"}}, "Jobs.Get"),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(CodeOf({.uris = {"coxswain://role/root"}}, "Jobs.Get"),
            absl::StatusCode::kUnauthenticated);
}

TEST_F(DoorTest, TheRuleOfCertificatesCanBeSet) {
  const Door door({.role_uri = "spiffe://example.org/coxswain/"});
  const auto role_of = [&](const char* uri) {
    const auto principal = door.Identify({.peer = "ipv4:192.0.2.1:4000", .uris = {uri}});
    return principal.ok() ? ToText(*principal) : std::string(principal.status().message());
  };
  EXPECT_EQ(role_of("spiffe://example.org/coxswain/user/ann"), "user ann");
  EXPECT_EQ(role_of("coxswain://role/operator"),
            "the call brings no token, and no certificate that names a role");
  EXPECT_NE(role_of("spiffe://example.org/coxswain/root")
                .find("expected spiffe://example.org/coxswain/ROLE"),
            std::string::npos);
  EXPECT_EQ(RoleUriProblem(kRoleUri), "");
  for (const char* wrong :
       {"", "://x/", "role/", "spiffe://example.org", "coxswain://", "a://b c/"}) {
    EXPECT_NE(RoleUriProblem(wrong), "") << wrong;
  }
}

// Invariant access-2.
TEST_F(DoorTest, AWorkerObeysWhoHoldsItsJoinTokenAsController) {
  EXPECT_EQ(CodeOf({.authorization = ProofOf(Role::kController)}, "Worker.Abort"),
            absl::StatusCode::kOk);
  EXPECT_EQ(CodeOf({.authorization = ProofOf(Role::kSupervisor)}, "Worker.Run"),
            absl::StatusCode::kOk);
  EXPECT_EQ(CodeOf({.authorization = ProofOf(Role::kSupervisor)}, "Worker.Abort"),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(CodeOf({.authorization = ProofOf(Role::kWorker)}, "Worker.Abort"),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(CodeOf({.authorization = ProofOf(Role::kWorker)}, "Registry.Register"),
            absl::StatusCode::kOk);
}

TEST_F(DoorTest, AnOpenDoorLetsAnybodyDoEverything) {
  const Door open({.open = true});
  EXPECT_EQ(open.Admit({}, "Jobs.Cordon")->role, Role::kOperator);
  EXPECT_TRUE(open.Admit({}, "Worker.Abort").ok());
}

}  // namespace
}  // namespace coxswain::access
