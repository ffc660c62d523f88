#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include <httplib.h>

#include "common/hub/api/repository_listing.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::hub {
namespace {

// An endpoint with a certificate of an authority that no system knows. It answers every question
// with a commit, or leads away to `leads_to`.
class TlsHub {
 public:
  TlsHub() {
    const std::string made = "deploy/tls/make-certificates.sh " + tls_ + " >" + tls_ + ".log 2>&1";
    EXPECT_EQ(std::system(made.c_str()), 0) << support::ReadFile(tls_ + ".log");
    server_ = std::make_unique<httplib::SSLServer>((tls_ + "/controller/tls.crt").c_str(),
                                                   (tls_ + "/controller/tls.key").c_str());
    server_->set_pre_routing_handler([this](const httplib::Request&, httplib::Response& response) {
      ++asked_;
      if (leads_to_.empty()) {
        response.set_content("{\"sha\": \"" + std::string(40, 'a') + "\"}", "application/json");
      } else {
        response.set_redirect(leads_to_);
      }
      return httplib::Server::HandlerResponse::Handled;
    });
    port_ = server_->bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_->listen_after_bind(); });
    while (!server_->is_running()) std::this_thread::yield();
  }
  ~TlsHub() {
    server_->stop();
    thread_.join();
  }
  void LeadTo(const std::string& url) { leads_to_ = url; }
  std::string authority() const { return tls_ + "/controller/ca.crt"; }
  int asked() const { return asked_; }

  absl::StatusOr<std::string> Ask(const std::string& ca_file) const {
    Settings settings;
    settings.endpoint = "https://localhost:" + std::to_string(port_);
    settings.ca_file = ca_file;
    settings.limits.first_delay = std::chrono::milliseconds(1);
    return AskCommit(settings, *MakeRepository(RepositoryType::kModel, "org/tiny"));
  }

 private:
  const support::ScratchFolder folder_;
  const std::string tls_ = folder_.path() + "/tls";
  std::unique_ptr<httplib::SSLServer> server_;
  int port_ = 0;
  std::string leads_to_;
  std::atomic<int> asked_{0};
  std::thread thread_;
};

// Invariant hub-2.
TEST(HubTlsTest, AnEndpointProvesWhoItIsAndLeadsNowhereInPlainText) {
  TlsHub hub;
  const absl::Status stranger = hub.Ask("").status();
  EXPECT_EQ(stranger.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(stranger.message().find("certificate"), std::string::npos) << stranger;
  EXPECT_EQ(hub.asked(), 0);
  EXPECT_EQ(*hub.Ask(hub.authority()), std::string(40, 'a'));
  EXPECT_EQ(hub.asked(), 1);

  hub.LeadTo("http://localhost:1/");
  const absl::Status plain = hub.Ask(hub.authority()).status();
  EXPECT_EQ(plain.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(plain.message().find("from https to http://localhost:1/"), std::string::npos) << plain;
  EXPECT_EQ(hub.asked(), 2) << "it was tried again";

  hub.LeadTo("/again");
  const absl::Status circle = hub.Ask(hub.authority()).status();
  EXPECT_NE(circle.message().find("10 times"), std::string::npos) << circle;
}

}  // namespace
}  // namespace coxswain::hub
