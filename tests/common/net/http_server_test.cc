#include "common/net/http_server.h"

#include <cstdlib>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace coxswain {
namespace {

int Dial(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(static_cast<uint16_t>(std::atoi(address.c_str() + colon + 1)));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &peer.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&peer), sizeof(peer)), 0);
  return fd;
}

std::string Ask(const std::string& address, const std::string& request) {
  const int fd = Dial(address);
  EXPECT_GT(send(fd, request.data(), request.size(), MSG_NOSIGNAL), 0);
  std::string reply;
  char buffer[4096];
  for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;) reply.append(buffer, n);
  close(fd);
  return reply;
}

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() {
    auto started = HttpServer::Start("127.0.0.1:0", 2, [](const std::string& path) {
      return HttpResponse{.body = "at " + path, .headers = {{"X-Extra", "yes"}}};
    });
    EXPECT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
  }
  std::string Ask(const std::string& line) {
    return coxswain::Ask(server_->address(), line + " HTTP/1.1\r\nHost: h\r\n\r\n");
  }
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, GivesTheHandlerTheDecodedPathAndSendsWhatItAnswers) {
  EXPECT_NE(server_->address(), "127.0.0.1:0");
  const std::string reply = Ask("GET /a%20b?x=y");
  EXPECT_EQ(reply.rfind("HTTP/1.1 200 OK\r\n", 0), 0u) << reply;
  EXPECT_TRUE(reply.ends_with("\r\n\r\nat /a b")) << reply;
  EXPECT_NE(reply.find("X-Extra: yes\r\n"), std::string::npos) << reply;
  EXPECT_NE(reply.find("X-Content-Type-Options: nosniff\r\n"), std::string::npos) << reply;
}

TEST_F(HttpServerTest, HeadHasTheHeadersAndNoBody) {
  const std::string reply = Ask("HEAD /a");
  EXPECT_NE(reply.find("Content-Length: 5\r\n"), std::string::npos) << reply;
  EXPECT_TRUE(reply.ends_with("\r\n\r\n")) << reply;
}

TEST_F(HttpServerTest, OtherMethodsAndGarbageAreRefusedAndItGoesOn) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    const std::string reply = Ask(std::string(method) + " /a");
    EXPECT_EQ(reply.rfind("HTTP/1.1 405 ", 0), 0u) << reply;
    EXPECT_NE(reply.find("Allow: GET, HEAD\r\n"), std::string::npos) << reply;
  }
  EXPECT_EQ(Ask(std::string(8000, 'x')).rfind("HTTP/1.1 400 ", 0), 0u);
  EXPECT_EQ(Ask("GET /").rfind("HTTP/1.1 200 ", 0), 0u);
}

// As a browser does, which connects ahead of need.
TEST_F(HttpServerTest, AConnectionThatSaysNothingHoldsNobodyUp) {
  const int silent = Dial(server_->address());
  EXPECT_EQ(Ask("GET /").rfind("HTTP/1.1 200 ", 0), 0u);
  close(silent);
}

TEST_F(HttpServerTest, PortInUseNamesTheAddressAndTheReason) {
  auto second =
      HttpServer::Start(server_->address(), 1, [](const std::string&) { return HttpResponse{}; });
  ASSERT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  const std::string message(second.status().message());
  EXPECT_NE(message.find(server_->address()), std::string::npos) << message;
  EXPECT_NE(message.find("Address already in use"), std::string::npos) << message;
}

TEST_F(HttpServerTest, RefusesAnAddressWithoutPort) {
  for (const char* address : {"", "127.0.0.1", ":0", "127.0.0.1:"}) {
    const auto server =
        HttpServer::Start(address, 1, [](const std::string&) { return HttpResponse{}; });
    EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument) << address;
  }
}

}  // namespace
}  // namespace coxswain
