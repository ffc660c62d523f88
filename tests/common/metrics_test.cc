#include "common/metrics.h"

#include <cstdlib>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/build_info.h"
#include "prometheus/counter.h"

namespace coxswain {
namespace {

std::string Scrape(const std::string& address,
                   const std::string& request = "GET /metrics HTTP/1.1\r\n\r\n") {
  const size_t colon = address.rfind(':');
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(static_cast<uint16_t>(std::atoi(address.c_str() + colon + 1)));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &peer.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&peer), sizeof(peer)), 0);
  EXPECT_GT(send(fd, request.data(), request.size(), MSG_NOSIGNAL), 0);
  std::string reply;
  char buffer[4096];
  for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;) reply.append(buffer, n);
  close(fd);
  return reply;
}

TEST(MetricsServerTest, ServesTheRegistryAtTheBoundPort) {
  auto registry = std::make_shared<prometheus::Registry>();
  AddProcessMetrics("worker", registry.get());
  auto& tokens = prometheus::BuildCounter()
                     .Name("coxswain_worker_train_tokens_total")
                     .Register(*registry)
                     .Add({{"rank", "0"}});
  auto server = ServeMetrics("127.0.0.1:0", registry);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_NE((*server)->address(), "127.0.0.1:0");
  tokens.Increment(2048);
  const std::string text = Scrape((*server)->address());
  EXPECT_NE(text.find("coxswain_worker_train_tokens_total{rank=\"0\"} 2048"), std::string::npos)
      << text;
  EXPECT_NE(text.find("version=\"" + std::string(BuildVersion()) + "\""), std::string::npos);
  EXPECT_NE(text.find("process_start_time_seconds "), std::string::npos);
}

TEST(MetricsServerTest, ServesNothingElse) {
  auto server = ServeMetrics("127.0.0.1:0", std::make_shared<prometheus::Registry>());
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(Scrape((*server)->address(), "GET / HTTP/1.1\r\n\r\n").rfind("HTTP/1.1 404 ", 0), 0u);
}

}  // namespace
}  // namespace coxswain
