#include "common/net/http_server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/http_request.h"

namespace coxswain {
namespace {

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
    return support::Ask(server_->address(), line + " HTTP/1.1\r\nHost: h\r\n\r\n");
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

// One connection took 650 MiB: the library keeps all headers that come.
TEST_F(HttpServerTest, RefusesMoreHeadersThanItsBoundsAndKeepsNone) {
  const auto headers = [](size_t count, size_t bytes) {
    std::string request = "GET / HTTP/1.1\r\n";
    for (size_t i = 1; i < count; ++i) request += "H: " + std::string(bytes, 'x') + "\r\n";
    return request + "Host: h\r\n\r\n";
  };
  EXPECT_TRUE(support::Ask(server_->address(), headers(100, 10)).starts_with("HTTP/1.1 200 "));
  const std::string many = support::Ask(server_->address(), headers(101, 10));
  EXPECT_TRUE(many.starts_with("HTTP/1.1 431 ")) << many;
  EXPECT_NE(many.find("more than 100 headers or 16384 bytes"), std::string::npos) << many;
  const int flood = support::Dial(server_->address());
  const std::string endless = headers(4000, 8000);
  size_t taken = 0;
  for (ssize_t sent = 1; sent > 0 && taken<endless.size(); taken += sent> 0 ? sent : 0) {
    sent = send(flood, endless.data() + taken, endless.size() - taken, MSG_NOSIGNAL);
  }
  close(flood);
  EXPECT_LT(taken, endless.size());  // it hung up
  EXPECT_EQ(Ask("GET /").rfind("HTTP/1.1 200 ", 0), 0u);
}

// As a browser does, which connects ahead of need.
TEST_F(HttpServerTest, AConnectionThatSaysNothingHoldsNobodyUp) {
  const int silent = support::Dial(server_->address());
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
